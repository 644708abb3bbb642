"""Nodes of the configuration file: created, changed to match, or reported."""

import pytest
from harness.batches.facts import BOSS, EVE, JOBS, NOW, plain, queue, who, window
from msgspec.structs import replace

from pubqueue.model.changes import ConfigureNode, CreateNode, EndSubscription, SetAffiliation
from pubqueue.model.decision import Decision, Refusal, Refused
from pubqueue.model.entities import AccessModel, Affiliation, Jid, Node, NodeConfig
from pubqueue.model.replies import Declared, Difference
from pubqueue.rules.declare import OPEN_TO_ALL, Declare, declare
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.nodes import NodeFacts

SERVICE = who("queue.x", admin=True)
BOT, ETL = Jid("bot@x"), Jid("etl@x")
CLOSED = AccessModel.WHITELIST


def declared(node=None, *, people=(), audience=(), settings=(), **named):
    """Decide about JOBS, declared as a queue with these settings, with this existing node."""
    request = Declare(SERVICE, JOBS, Settings({"queueing": True} | dict(settings)), **named)
    known = {"affiliations": tuple(people), "subscriptions": tuple(map(window, audience))}
    return declare(request, NodeFacts(NOW, node, Affiliation.NONE, **known))


def test_a_node_that_is_not_there_is_made_closed_with_its_people_and_of_two_rights_the_stronger():
    decision = declared(
        owners=(Jid("boss@x"),),
        publishers=(Jid("etl@x/spark"), Jid("boss@x")),
        members=(BOT, ETL),
        outcasts=(Jid("eve@x"),),
    )
    node = Node(JOBS, NodeConfig(queueing=True, access_model=CLOSED), Jid("queue.x"), NOW)
    made, *people = decision.changes
    assert (decision.reply, made) == (Declared(JOBS, made=True), CreateNode(node))
    assert {(change.jid, change.affiliation) for change in people} == {
        (Jid("boss@x"), Affiliation.OWNER),
        (ETL, Affiliation.PUBLISHER),
        (BOT, Affiliation.MEMBER),
        (Jid("eve@x"), Affiliation.OUTCAST),
    }
    assert len(people) == 4


def test_a_node_that_matches_its_declaration_is_unchanged():
    node = queue(access_model=CLOSED)
    people = ((Jid("boss@x"), Affiliation.OWNER), (BOT, Affiliation.MEMBER))
    decision = declared(node, people=people, owners=(Jid("boss@x"),), members=(BOT,))
    assert decision == Decision(Declared(JOBS, made=False))


def test_settings_are_brought_to_what_is_declared_and_others_stay():
    node = queue(access_model=CLOSED, lock_timeout=60, max_failures=3)
    decision = declared(node, settings={"lock_timeout": 120})
    after = replace(node.config, lock_timeout=120)
    reported = (Difference("lock_timeout", "60", "120"),)
    assert decision == Decision(
        Declared(JOBS, made=False, changed=reported), (ConfigureNode(JOBS, after),)
    )


def test_accounts_become_as_declared_and_others_stay_and_are_reported():
    people = ((BOT, Affiliation.OUTCAST), (Jid("old@x"), Affiliation.MEMBER))
    decision = declared(queue(access_model=CLOSED), people=people, members=(BOT,))
    reported = Difference("bot@x", "outcast", "member")
    assert decision == Decision(
        Declared(JOBS, made=False, changed=(reported,), unnamed=(Jid("old@x"),)),
        (SetAffiliation(JOBS, BOT, Affiliation.MEMBER),),
    )


def test_a_queue_that_is_declared_plain_stays_a_queue_and_is_reported():
    decision = declared(queue(items=1), settings={"title": "work", "queueing": False})
    why = "can change only while the node has no items and no subscribers"
    assert decision == Decision(
        Declared(
            JOBS,
            made=False,
            changed=(Difference("title", "", "work"),),
            kept=(
                Difference("queueing", "1", "0", why),
                Difference("access_model", "open", "", OPEN_TO_ALL),
            ),
        ),
        (ConfigureNode(JOBS, NodeConfig(queueing=True, title="work", backoff_jitter=0)),),
    )


def test_a_plain_node_in_use_that_is_declared_a_queue_is_refused_and_nothing_is_changed():
    decision = declared(plain(items=1), settings={"title": "work"}, owners=(Jid("ann@x"),))
    assert isinstance(decision.reply, Refused)
    assert (decision.changes, decision.reply.setting) == ((), "queueing")
    assert "it is a plain node that boss@x has made" in decision.reply.reason


def test_where_the_file_names_owners_there_are_no_others():
    squatter = (Jid("boss@x"), Affiliation.OWNER)
    node = queue(access_model=CLOSED)
    decision = declared(
        node, people=(squatter, (BOT, Affiliation.OWNER)), owners=(Jid("ann@x/1"), BOT)
    )
    reported = Difference("boss@x", "owner", "none"), Difference("ann@x", "none", "owner")
    assert decision == Decision(
        Declared(JOBS, made=False, changed=reported),
        (
            ConfigureNode(JOBS, node.config, Jid("queue.x")),
            SetAffiliation(JOBS, Jid("boss@x"), Affiliation.NONE),
            SetAffiliation(JOBS, Jid("ann@x"), Affiliation.OWNER),
        ),
    )
    after = replace(node, creator=Jid("queue.x"))
    people = (Jid("ann@x"), Affiliation.OWNER), (BOT, Affiliation.OWNER)
    assert declared(after, people=people, owners=(Jid("ann@x"), BOT)).changes == ()


def test_a_former_owner_with_a_declared_affiliation_gets_it():
    decision = declared(
        queue(access_model=CLOSED),
        people=((Jid("boss@x"), Affiliation.OWNER),),
        owners=(Jid("ann@x"),),
        members=(Jid("boss@x"),),
        audience=(EVE,),
    )
    assert SetAffiliation(JOBS, Jid("boss@x"), Affiliation.MEMBER) in decision.changes
    assert EndSubscription(JOBS, EVE) in decision.changes


def test_without_owners_in_the_file_the_owners_stay():
    squatter = (Jid("eve@x"), Affiliation.OWNER)
    assert declared(queue(access_model=CLOSED), people=(squatter,)).changes == ()


def test_a_queue_that_is_open_without_the_file_saying_so_is_reported_and_works():
    reported = (Difference("access_model", "open", "", OPEN_TO_ALL),)
    assert declared(queue()) == Decision(Declared(JOBS, made=False, kept=reported))
    assert declared(queue(), settings={"access_model": "open"}).reply.kept == ()


@pytest.mark.parametrize(
    "how", [{"settings": {"access_model": "whitelist"}}, {"outcasts": (Jid("eve@x"),)}]
)
def test_a_declared_outcast_gets_no_more_items(how):
    decision = declared(queue(), audience=(EVE,), **how)
    assert EndSubscription(JOBS, EVE) in decision.changes


def test_an_invalid_declaration_changes_nothing():
    decision = declared(queue(), settings={"lock_timeout": 0})
    assert isinstance(decision.reply, Refused)
    assert decision.reply.refusal is Refusal.INVALID_CONFIG
    assert decision.changes == ()
    decision = declared(queue(items=1), settings={"dead_letter_node": JOBS})
    assert (decision.reply.reason, decision.changes) == (
        "a node cannot be its own dead-letter node",
        (),
    )


def test_a_declaration_twice_is_one():
    first = declared(queue(), settings={"lock_timeout": 7}, owners=(Jid("boss@x"),))
    (change, *_) = first.changes
    again = declared(
        replace(queue(), config=change.config),
        people=((BOSS.partition("/")[0], Affiliation.OWNER),),
        settings={"lock_timeout": 7},
        owners=(Jid("boss@x"),),
    )
    assert again.changes == ()
