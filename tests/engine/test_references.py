"""A setting that names another node is judged like a publish there: when it is set, and at each death."""

import pytest
from harness.batches.facts import ANN, BOSS, ETL, EVE, JOBS, who
from harness.batches.queue_requests import a_queue, joins, publishes, unlocks
from harness.batches.shell import Shell
from harness.stores.store_contents import recount

from pubqueue.model.decision import Done, Redriven, Refusal, Refused
from pubqueue.model.entities import Affiliation, ItemId, Jid, NodeName, Principal, State
from pubqueue.model.replies import Created, Declared
from pubqueue.rules.access import AutoCreation, CreationPolicy
from pubqueue.rules.dead_letters import Redrive
from pubqueue.rules.declare import Declare
from pubqueue.rules.expire import Expire
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.nodes import Configure, Create, Delete, SetAffiliations
from pubqueue.rules.publication import Publish
from pubqueue.rules.retrieve import Retrieve
from pubqueue.rules.settle import Outcome

DEAD = NodeName("jobs-dead")
MINE = NodeName("eves")
KEPT = "urn:kept"


@pytest.fixture
def shell(tmp_path):
    shell = Shell(tmp_path / "queue.db")
    shell.space_of = lambda payload: payload.partition(b"|")[0].decode()
    yield shell
    assert shell.look_within(recount) == []
    shell.close()


def item(shell, name="i1", node=JOBS):
    return shell.look(lambda tx: tx.item(node, ItemId(name)))


def makes(jid, node, **settings):
    wanted = Settings({"queueing": True, "access_model": "open"} | settings)
    return Create(who(jid, local=True), node, wanted)


def configures(jid, node, **settings):
    return Configure(who(jid), node, Settings(settings))


def dies(shell, name="i1", *, node=JOBS, by=ETL, **draft):
    """Publish, deliver and reject an item of the queue; return its final row, in any node."""
    shell.batch(joins(ANN, 9, node=node), publishes(name, by=by, node=node, **draft))
    assert shell.do(unlocks(ANN, name, node=node, outcome=Outcome.REJECT, reason="no")) == Done()
    return item(shell, name, node) or item(shell, name, DEAD)


# --- when it is set -------------------------------------------------------------------------------


def naming(shell, by, name=DEAD):
    """Return the answers to all requests with which an account can let its node name another."""
    shell.do(makes(by, NodeName(f"{by}-own")))
    wanted = Settings({"queueing": True, "dead_letter_node": name})
    drafts = publishes("x").drafts
    return [
        shell.do(makes(by, NodeName(f"{by}-new"), dead_letter_node=name)),
        shell.do(configures(by, NodeName(f"{by}-own"), dead_letter_node=name)),
        shell.do(Publish(who(by, local=True), NodeName(f"{by}-auto"), drafts, wanted)),
    ]


def test_an_account_may_not_name_a_node_without_the_right_to_publish(shell):
    shell.creation = AutoCreation.WITH_OPTIONS
    shell.batch(a_queue(DEAD))
    made, configured, published = naming(shell, EVE)
    assert (made.refusal, configured.refusal) == (Refusal.FORBIDDEN, Refusal.FORBIDDEN)
    assert made.reason == configured.reason == f"dead_letter_node: you may not publish to '{DEAD}'"
    assert published.refusal is Refusal.PRECONDITION_NOT_MET
    assert shell.look(lambda tx: tx.node(NodeName(f"{EVE}-new"))) is None


@pytest.mark.parametrize(
    "role", [Affiliation.OWNER, Affiliation.PUBLISHER, Affiliation.PUBLISH_ONLY]
)
def test_an_account_may_name_a_node_with_the_right_to_publish(shell, role):
    shell.creation = AutoCreation.WITH_OPTIONS
    shell.batch(a_queue(DEAD))
    shell.do(SetAffiliations(who(BOSS), DEAD, ((Jid("eve@x"), role),)))
    assert not any(isinstance(reply, Refused) for reply in naming(shell, EVE))


def test_an_open_node_can_be_named_and_one_with_outcasts_cannot(shell):
    shell.batch(a_queue(DEAD, publish_model="open"))
    assert isinstance(naming(shell, EVE)[0], Created)
    shell.do(SetAffiliations(who(BOSS), DEAD, ((Jid("etl@x"), Affiliation.OUTCAST),)))
    assert naming(shell, ETL)[0].refusal is Refusal.FORBIDDEN


@pytest.mark.parametrize(
    ("policy", "may"), [(CreationPolicy.LOCAL, True), (CreationPolicy.ADMINS, False)]
)
def test_a_missing_node_can_be_named_by_accounts_that_may_create_it(shell, policy, may):
    shell.do(makes(EVE, MINE))
    shell.policy = policy
    asked = Configure(who(EVE, local=True), MINE, Settings({"dead_letter_node": DEAD}))
    assert isinstance(shell.do(asked), Done) is may


def test_an_administrator_names_any_node(shell):
    shell.batch(a_queue(DEAD), makes(EVE, MINE))
    asked = Configure(who("root@x", admin=True), MINE, Settings({"dead_letter_node": DEAD}))
    assert shell.do(asked) == Done()


# --- when it is used ------------------------------------------------------------------------------


def test_a_death_puts_nothing_where_an_owner_of_the_queue_may_not_publish_any_more(shell):
    shell.batch(a_queue(DEAD))
    may = (Jid("eve@x"), Affiliation.PUBLISHER)
    shell.do(SetAffiliations(who(BOSS), DEAD, (may,)))
    shell.do(makes(EVE, MINE, dead_letter_node=DEAD))
    assert dies(shell, "a", node=MINE, by=EVE).node == DEAD
    shell.do(SetAffiliations(who(BOSS), DEAD, ((may[0], Affiliation.NONE),)))
    stays = dies(shell, "b", node=MINE, by=EVE)
    assert (stays.node, stays.state) == (MINE, State.DEAD)
    assert stays.error == f"no; not moved to {DEAD}: forbidden, for eve@x"


@pytest.mark.parametrize(
    ("settings", "draft", "why"),
    [
        ({"publish_paused": True}, {}, "publish paused: publishing to this node is paused"),
        ({"max_payload_size": 2}, {"payload": b"four"}, "payload too big (2)"),
        ({"type": KEPT}, {"payload": b"urn:other|x"}, "wrong payload"),
        ({"queueing": False}, {"priority": 3}, "bad request"),
        ({"queueing": False, "persist_items": False}, {}, "it does not keep items"),
        ({"max_items": 1}, {}, "it is full"),
    ],
)
def test_a_dead_item_stays_if_its_publish_would_be_refused(shell, settings, draft, why):
    settings = {"publish_model": "open"} | settings
    shell.batch(a_queue(DEAD, **settings), a_queue(dead_letter_node=DEAD))
    if "max_items" in settings:
        shell.do(publishes("full", node=DEAD))
    dead = dies(shell, **draft)
    assert (dead.node, dead.state) == (JOBS, State.DEAD)
    assert dead.error.startswith(f"no; not moved to {DEAD}: {why}")


def test_a_dead_item_moves_if_its_publish_would_be_accepted(shell):
    fits = {"type": KEPT, "max_payload_size": 10, "publish_model": "open"}
    shell.batch(a_queue(DEAD, **fits), a_queue(dead_letter_node=DEAD))
    assert dies(shell, payload=b"urn:kept|x").node == DEAD


def test_one_owner_with_the_right_to_publish_is_enough(shell):
    shell.batch(a_queue(DEAD), a_queue(dead_letter_node=DEAD))
    two = (Jid("aaa@x"), Affiliation.OWNER), (Jid("boss@x"), Affiliation.OWNER)
    shell.do(SetAffiliations(who(BOSS), JOBS, two))
    assert dies(shell).node == DEAD


def test_a_missing_dead_letter_node_does_not_belong_to_its_first_creator(shell):
    shell.batch(a_queue(dead_letter_node=DEAD))
    assert shell.do(makes(EVE, DEAD, publish_model="open")) == Created(DEAD)
    mine = (Jid("boss@x"), Affiliation.OWNER)
    shell.do(SetAffiliations(who(EVE), DEAD, (mine,)))  # to look like one of the boss's
    dead = dies(shell)
    assert (dead.node, dead.state) == (JOBS, State.DEAD)
    assert "eve@x recreated it, so it is not the node that was meant" in dead.error


def test_nor_is_one_that_was_deleted_and_made_again_by_another(shell):
    shell.batch(a_queue(DEAD), a_queue(dead_letter_node=DEAD))
    shell.wait(1)
    shell.batch(Delete(who(BOSS), DEAD), makes(EVE, DEAD, publish_model="open"))
    whole_form = configures(BOSS, JOBS, dead_letter_node=DEAD, lock_timeout=7)
    assert (
        shell.do(whole_form) == Done()
    )  # as a client submits it: what is named is not named anew by that
    assert dies(shell).node == JOBS


def test_a_queue_uses_the_named_node_of_another_account(shell):
    shell.do(makes(EVE, DEAD, publish_model="open"))
    shell.batch(a_queue(dead_letter_node=DEAD))
    assert dies(shell).node == DEAD


@pytest.mark.parametrize("maker", ["an owner", "the operator"])
def test_a_missing_dead_letter_node_that_an_owner_or_the_operator_makes_takes_the_dead(
    shell, maker
):
    shell.batch(a_queue(dead_letter_node=DEAD))
    if maker == "an owner":
        shell.do(makes(BOSS, DEAD))
    else:
        shell.operators = frozenset({Jid("root@x")})
        shell.do(
            Create(
                who("root@x", admin=True),
                DEAD,
                Settings({"queueing": True, "publish_model": "open"}),
            )
        )
    assert dies(shell).node == DEAD


def test_the_operator_publishes_for_a_queue_without_owner(shell):
    wanted = {"queueing": True, "access_model": "open", "publish_model": "open"}
    operator = who("root@x", admin=True)
    asked = Declare(operator, JOBS, Settings(wanted | {"dead_letter_node": DEAD}))
    assert isinstance(shell.do(Declare(operator, DEAD, Settings({"queueing": True}))), Declared)
    assert isinstance(shell.do(asked), Declared)
    assert dies(shell).node == DEAD


def test_a_lock_and_a_life_that_end_are_judged_alike(shell):
    shell.batch(a_queue(DEAD, publish_paused=True))
    shell.batch(a_queue(dead_letter_node=DEAD, max_failures=1, lock_timeout=5))
    shell.batch(joins(ANN), publishes("held"), publishes("old", ttl=5))
    shell.wait(5)
    shell.do(Expire())
    assert [item(shell, name).state for name in ("held", "old")] == [State.DEAD, State.DEAD]
    shell.do(Configure(who(BOSS), DEAD, Settings({"publish_paused": False})))
    shell.batch(publishes("next", ttl=5))
    shell.wait(5)
    shell.do(Expire())
    assert item(shell, "next", DEAD) is not None


# --- redrives: the name of the node that an item came from ------------------------------------------


def test_a_redrive_does_not_follow_the_name_of_its_origin_to_another_node(shell):
    shell.batch(a_queue(DEAD), a_queue(dead_letter_node=DEAD))
    assert dies(shell).node == DEAD
    shell.wait(1)
    shell.batch(Delete(who(BOSS), JOBS), makes(EVE, JOBS, publish_model="open"))
    assert shell.do(Redrive(who(BOSS), DEAD)) == Redriven(DEAD, 0)
    named = Redrive(who(BOSS), DEAD, (ItemId("i1"),))
    assert shell.do(named).refusal is Refusal.NODE_NOT_FOUND
    on_purpose = Redrive(who(BOSS), DEAD, (ItemId("i1"),), JOBS)
    assert shell.do(on_purpose) == Redriven(DEAD, 1)


@pytest.mark.parametrize(
    ("settings", "refusal"),
    [
        ({"publish_paused": True}, Refusal.PUBLISH_PAUSED),
        ({"max_payload_size": 2}, Refusal.PAYLOAD_TOO_BIG),
        ({"type": KEPT}, Refusal.WRONG_PAYLOAD),
    ],
)
def test_a_redrive_to_another_node_is_judged_as_a_publish(shell, settings, refusal):
    shell.batch(a_queue(DEAD), a_queue(dead_letter_node=DEAD))
    assert dies(shell, payload=b"urn:other|x").node == DEAD
    shell.do(configures(BOSS, JOBS, **settings))
    named = Redrive(who(BOSS), DEAD, (ItemId("i1"),))
    assert shell.do(named).refusal is refusal
    assert shell.do(Redrive(who(BOSS), DEAD)) == Redriven(DEAD, 0)


# --- names that belong to an account ----------------------------------------------------------------

REPLIES = NodeName("replies/etl@x")


def test_a_node_for_replies_belongs_to_its_account(shell):
    """As when any account could create it: the squatter's ownership does not count, and the account manages the node."""
    squatter = Principal(EVE, admin=True)  # the only way by now
    shell.do(Create(squatter, REPLIES, Settings({"access_model": "whitelist"})))
    for mine in (
        configures(EVE, REPLIES, access_model="open"),
        Retrieve(who(EVE), REPLIES),
        Delete(who(EVE), REPLIES),
        SetAffiliations(who(EVE), REPLIES, ((Jid("bob@x"), Affiliation.MEMBER),)),
    ):
        assert isinstance(shell.do(mine), Refused)
    assert shell.do(configures(ETL, REPLIES, max_items=7)) == Done()
    out = (Jid("eve@x"), Affiliation.NONE), (Jid("etl@x"), Affiliation.OWNER)
    assert shell.do(SetAffiliations(who(ETL), REPLIES, out)) == Done()
    assert shell.do(Delete(who(ETL), REPLIES)) == Done()
