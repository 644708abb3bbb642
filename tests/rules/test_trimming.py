"""Publishing to a plain node (XEP-0060 4.3, 7.1)."""

import pytest
from harness.batches.facts import ANN, ETL, FLEETING, JOBS, NOW, draft, plain, queue, waiting, who
from msgspec.structs import replace

from pubqueue.model.changes import (
    AddItem,
    CallGroups,
    CreateNode,
    EndTrim,
    RemoveItem,
    SetAffiliation,
)
from pubqueue.model.decision import Decision, Done, Published, Refusal
from pubqueue.model.entities import Affiliation, ItemId, Jid, NodeConfig, NodeFull, State
from pubqueue.model.notices import NOBODY, Announce, Retracted, ToEach
from pubqueue.rules.access import AutoCreation, CreationPolicy
from pubqueue.rules.audience import ReviewSubscribers
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.publication import Known, Publish, PublishFacts
from pubqueue.rules.publish import publish_at_once
from pubqueue.rules.trimming import TrimItems, TrimItemsFacts, begins, groups_of_slice, trim

WRITER = Jid("etl@x")
OLD = tuple(waiting(seq) for seq in range(1, 7))


def put(*drafts, node, existing=(), options=None, **facts):
    """Publish as the owner; `existing` are the items with the first drafts' ids."""
    found = [(Known.OTHER, item) for item in existing]
    found += [(Known.NEW, None)] * (len(drafts) - len(found))
    known = {
        "now": NOW,
        "node": node,
        "affiliation": Affiliation.OWNER,
        "subscribed": False,
        "existing": tuple(found),
        "audience": (ANN,),
    }
    return publish_at_once(
        Publish(who(ETL), JOBS, drafts, options), PublishFacts(**(known | facts))
    )


def added(given, **facts):
    return AddItem(JOBS, given, WRITER, NOW, State.QUEUED, None, None, **facts)


def reported(what):
    return ToEach((ANN,), what, FLEETING)


def announced(given):
    return reported(Announce(NOBODY, JOBS, given, WRITER))


def test_a_full_node_drops_its_oldest_item_and_notifies_after_the_new_one():
    new = draft("new")
    decision = put(new, node=plain(items=3, max_items=3), oldest=OLD[:2])
    gone = reported(Retracted(NOBODY, JOBS, (OLD[0].id,)))
    changes = (RemoveItem(OLD[0]), added(new))
    assert decision == Decision(Published(JOBS, (new.id,)), changes, (announced(new), gone))


@pytest.mark.parametrize(
    "config", [{"publish_node_full": NodeFull.DISCARD_OLDEST}, {"notify_retract": False}]
)
def test_or_it_is_not_reported(config):
    new = draft("new")
    decision = put(new, node=plain(items=3, max_items=3, **config), oldest=OLD[:2])
    assert (decision.changes[0], decision.notices) == (RemoveItem(OLD[0]), (announced(new),))


def test_an_overwritten_item_needs_no_room_and_is_not_dropped():
    one, two = draft("i1"), draft("new")
    decision = put(
        *(one, two),
        node=plain(items=3, max_items=3),
        existing=[OLD[0]],
        oldest=OLD[:4],
    )
    gone = (RemoveItem(OLD[0]), RemoveItem(OLD[1]))
    assert decision.changes == (*gone, added(one, instead=1), added(two))


def test_while_a_node_is_far_too_full_a_publish_drops_no_more_than_it_brings():
    decision = put(draft("new"), node=plain(items=9_000, max_items=3), oldest=OLD[:2])
    assert len(decision.changes) == 2


def test_one_that_rejects_takes_no_more():
    node = plain(items=3, max_items=3, publish_node_full=NodeFull.REJECT)
    assert put(draft("new"), node=node).reply.refusal is Refusal.NODE_FULL
    assert put(draft("i1"), node=node, existing=[OLD[0]]).changes[0] == RemoveItem(OLD[0])


def test_a_transient_node_keeps_the_last_item_alone():
    one, two = draft("one"), draft("two")
    decision = put(one, two, node=plain(items=1, persist_items=False), oldest=OLD[:1])
    assert decision.changes == (RemoveItem(OLD[0]), added(two))
    assert decision.notices == (announced(one), announced(two))


def test_a_node_without_payloads_keeps_nothing_and_notifies_of_an_event():
    node = plain(persist_items=False, deliver_payloads=False)
    assert put(draft("one"), node=node).reply.refusal is Refusal.ITEM_FORBIDDEN
    done = Decision(Published(JOBS, ()), (), (announced(None),))
    assert put(node=node) == done


@pytest.mark.parametrize("config", [{}, {"persist_items": False}, {"deliver_payloads": False}])
def test_all_other_nodes_need_an_item(config):
    assert put(node=plain(**config)).reply.refusal is Refusal.ITEM_REQUIRED


def test_where_payloads_are_delivered_one_is_needed():
    empty = draft("i1", payload=b"")
    assert put(empty, node=plain()).reply.refusal is Refusal.PAYLOAD_REQUIRED
    assert put(empty, node=plain(deliver_payloads=False)).changes == (added(empty),)


def test_without_payloads_in_events_they_are_kept_all_the_same():
    given = draft("i1")
    decision = put(given, node=plain(deliver_payloads=False))
    assert decision.changes == (added(given),)
    assert decision.notices == (announced(draft("i1", payload=b"")),)


@pytest.mark.parametrize("node", [plain(deliver_notifications=False, max_items=1, items=1)])
def test_a_node_without_notifications_sends_none(node):
    assert put(draft("new"), node=node, oldest=OLD[:1]).notices == ()


ASKED = Settings({"access_model": "whitelist"})


@pytest.mark.parametrize(
    ("creation", "options", "makes"),
    [
        (AutoCreation.ALWAYS, None, True),
        (AutoCreation.ALWAYS, ASKED, True),
        (AutoCreation.WITH_OPTIONS, None, False),
        (AutoCreation.WITH_OPTIONS, ASKED, True),
        (AutoCreation.NEVER, None, False),
        (AutoCreation.NEVER, ASKED, False),
    ],
)
def test_a_publish_makes_the_node_that_it_names_if_that_is_the_services_way(
    creation, options, makes
):
    """XEP-0060 7.1.4, 7.1.5."""
    given = draft("i1")
    decision = put(
        given,
        node=None,
        options=options,
        audience=(),
        creation=creation,
        policy=CreationPolicy.ANYONE,
    )
    if not makes:
        assert decision.reply.refusal is Refusal.NODE_NOT_FOUND
        return
    created, owner, item = decision.changes
    assert isinstance(created, CreateNode)
    assert created.node.config.access_model == ("whitelist" if options else "open")
    assert owner == SetAffiliation(JOBS, WRITER, Affiliation.OWNER)
    assert (decision.reply, item) == (Published(JOBS, (ItemId("i1"),)), added(given))


@pytest.mark.parametrize(
    ("facts", "options", "refusal"),
    [
        ({"policy": CreationPolicy.ADMINS}, ASKED, Refusal.NODE_NOT_FOUND),
        ({}, Settings({"access_model": "roster"}), Refusal.PRECONDITION_NOT_MET),
        ({}, Settings({"deliver_payloads": "0", "persist_items": "0"}), Refusal.ITEM_FORBIDDEN),
    ],
)
def test_no_node_comes_of_a_publish_that_is_refused(facts, options, refusal):
    known = {"creation": AutoCreation.ALWAYS, "policy": CreationPolicy.ANYONE} | facts
    decision = put(draft("i1"), node=None, options=options, **known)
    assert (decision.reply.refusal, decision.changes) == (refusal, ())


def test_preconditions_are_looked_at_behind_the_right_to_publish():
    unmet = Settings({"max_items": "7"})
    owner = put(draft("i1"), node=plain(), options=unmet)
    stranger = put(draft("i1"), node=plain(), options=unmet, affiliation=Affiliation.NONE)
    assert owner.reply.refusal is Refusal.PRECONDITION_NOT_MET
    assert stranger.reply.refusal is Refusal.FORBIDDEN


# More turns for the groups of a queue whose limit was raised: which slices, and when they end.

FIRST = NodeConfig(queueing=True, group_limit=3)


@pytest.mark.parametrize(
    ("limit", "queueing", "expected"),
    [(4, True, True), (3, True, False), (1, True, False), (4, False, False)],
)
def test_only_a_higher_limit_of_a_queue_gives_something_to_do(limit, queueing, expected):
    assert begins(FIRST, NodeConfig(queueing=queueing, group_limit=limit)) is expected


@pytest.mark.parametrize("queueing", [True, False])
def test_groups_that_are_sent_ahead_from_now_on_or_no_more_have_other_turns(queueing):
    ahead = NodeConfig(queueing=queueing, group_limit=3, group_ahead=True)
    assert begins(FIRST, ahead) is queueing
    assert begins(ahead, replace(FIRST, queueing=queueing)) is queueing


def test_a_slice_has_about_so_many_turns_whatever_the_limit():
    assert [groups_of_slice(NodeConfig(group_limit=limit)) for limit in (1, 2, 500, 1000)] == [
        *(500, 250, 1, 1)
    ]


def test_a_queue_is_trimmed_first_and_then_its_groups_are_called():
    decision = trim(TrimItems(JOBS, Done()), TrimItemsFacts(queue(), ()))
    assert decision == Decision(Done(), then=TrimItems(JOBS, Done(), group=""))


def test_a_slice_calls_its_groups_and_goes_on_behind_the_last():
    facts = TrimItemsFacts(queue(), (), groups=("a", "b"))
    decision = trim(TrimItems(JOBS, Done(), group=""), facts)
    then = TrimItems(JOBS, Done(), group="b")
    assert decision == Decision(Done(), (CallGroups(JOBS, ("a", "b")),), then=then)


def test_behind_the_last_group_it_ends_and_the_subscribers_follow():
    asked = TrimItems(JOBS, Done(), review=True, group="b")
    decision = trim(asked, TrimItemsFacts(queue(), ()))
    then = ReviewSubscribers(JOBS, Done())
    assert decision == Decision(Done(), (EndTrim(JOBS),), then=then)


def test_a_plain_node_has_no_groups_to_call():
    decision = trim(TrimItems(JOBS), TrimItemsFacts(plain(), ()))
    assert decision == Decision(Done(), (EndTrim(JOBS),))
