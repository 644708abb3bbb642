"""Publish (XEP-0060 7.1) and what makes it safe to repeat on a queue."""

import pytest
from harness.batches.facts import (
    ANN,
    BOB,
    ETL,
    FLEETING,
    JOBS,
    NOW,
    after,
    draft,
    held,
    plain,
    queue,
    waiting,
    who,
)

from pubqueue.model.changes import AddItem, RemoveItem, ReplacePayload
from pubqueue.model.decision import Decision, Published, Refusal, Refused
from pubqueue.model.entities import Affiliation, ItemId, Jid, PublishModel, State, seconds
from pubqueue.model.notices import NOBODY, Announce, ToEach
from pubqueue.rules.publication import Known, Publish, PublishFacts
from pubqueue.rules.publish import publish_at_once

NEW = (Known.NEW, None)
OK = Published(JOBS, (ItemId("i1"),))
REPLACED = Published(JOBS, (ItemId("i1"),), replaced=(ItemId("i1"),))
KNOWN = Published(JOBS, (ItemId("i1"),), known=(ItemId("i1"),))


def put(*drafts, node=None, existing=None, **facts):
    """Publish as `etl`, a publisher; `existing` are the items with each draft's id."""
    known = {
        "now": NOW,
        "node": queue() if node is None else node,
        "affiliation": Affiliation.PUBLISHER,
        "subscribed": False,
        "existing": tuple(existing) if existing else (NEW,) * len(drafts),
    }
    demands = {name: facts.pop(name) for name in ("queueing", "only_new") if name in facts}
    return publish_at_once(
        Publish(who(ETL), JOBS, drafts, **demands), PublishFacts(**(known | facts))
    )


def added(given, **changes):
    facts = {"state": State.QUEUED, "due": None, "expires": None} | changes
    return AddItem(JOBS, given, Jid("etl@x"), NOW, **facts)


def refused(refusal, reason="", limit=None):
    return Decision(Refused(refusal, reason, limit))


def test_a_new_item_waits_for_a_subscriber_and_is_announced_to_none():
    given = draft()
    assert put(given, audience=()) == Decision(OK, (added(given),))


def test_many_items_are_added_in_their_order():
    drafts = [draft(f"i{number}") for number in range(3)]
    ids = tuple(given.id for given in drafts)
    assert put(*drafts) == Decision(Published(JOBS, ids), tuple(map(added, drafts)))


@pytest.mark.parametrize(
    "known",
    [
        (Known.SAME, waiting()),
        (Known.SAME, held()),
        (Known.SAME, waiting(state=State.DELAYED, due=after(9))),
        (Known.FINISHED, None),
    ],
    ids=["queued", "locked", "delayed", "finished"],
)
def test_the_same_work_again_succeeds_and_changes_nothing(known):
    assert put(draft(), existing=[known]) == Decision(KNOWN)


def test_another_payload_replaces_that_of_a_waiting_item():
    item = waiting()
    decision = put(draft(payload=b"<new/>"), existing=[(Known.OTHER, item)])
    assert decision == Decision(REPLACED, (ReplacePayload(item, b"<new/>", Jid("etl@x")),))


def test_another_payload_for_work_in_progress_is_a_conflict():
    decision = put(draft(), existing=[(Known.OTHER, held())])
    assert decision == refused(Refusal.ITEM_LOCKED, "item i1 is in flight")


def test_another_payload_for_dead_work_is_a_conflict_for_it_would_wait_in_vain():
    decision = put(draft(), existing=[(Known.OTHER, waiting(state=State.DEAD))])
    reported = "item i1 is dead here: redrive or retract it"
    assert decision == refused(Refusal.ITEM_EXISTS, reported)


def test_one_conflict_refuses_all_items_of_the_publish():
    decision = put(draft("i2"), draft("i1"), existing=[NEW, (Known.OTHER, held())])
    assert decision == refused(Refusal.ITEM_LOCKED, "item i1 is in flight")


def test_a_delayed_item_waits_for_its_time():
    given = draft(delay=seconds(5))
    assert put(given).changes == (added(given, state=State.DELAYED, due=after(5)),)


@pytest.mark.parametrize(
    ("ttl", "item_expire", "expires"),
    [(None, None, None), (5, None, 5), (None, 7, 7), (5, 7, 5), (9, 7, 7)],
)
def test_the_shorter_life_counts(ttl, item_expire, expires):
    given = draft(ttl=None if ttl is None else seconds(ttl))
    (change,) = put(given, node=queue(item_expire=item_expire)).changes
    assert change.expires == (None if expires is None else after(expires))


def test_without_the_node_nothing_is_published():
    facts = PublishFacts(NOW, None, Affiliation.NONE, subscribed=False, existing=())
    request = Publish(who(ETL), JOBS, (draft(),))
    assert publish_at_once(request, facts) == refused(Refusal.NODE_NOT_FOUND)


@pytest.mark.parametrize(
    ("model", "subscribed", "allowed"),
    [
        (PublishModel.PUBLISHERS, True, False),
        (PublishModel.SUBSCRIBERS, True, True),
        (PublishModel.SUBSCRIBERS, False, False),
        (PublishModel.OPEN, False, True),
    ],
)
def test_the_publish_model_names_further_publishers(model, subscribed, allowed):
    node = queue(publish_model=model)
    decision = put(draft(), node=node, affiliation=Affiliation.NONE, subscribed=subscribed)
    assert (decision == refused(Refusal.FORBIDDEN)) is not allowed


def test_the_payload_has_a_bound_and_the_refusal_names_it():
    node = queue(max_payload_size=4)
    assert put(draft(payload=b"<a/>"), node=node).changes
    decision = put(draft(payload=b"<ab/>"), node=node)
    assert decision == refused(Refusal.PAYLOAD_TOO_BIG, limit=4)


BEFORE, AFTER = (("trace", "1"),), (("trace", "2"), ("trace", "3"))


def test_headers_go_along():
    given = draft(headers=BEFORE)
    assert put(given).changes == (added(given),)


def test_other_headers_are_no_other_work():
    known = (Known.SAME, waiting(headers=BEFORE))
    assert put(draft(headers=AFTER), existing=[known]) == Decision(KNOWN)


def test_another_payload_brings_its_own_headers():
    item = waiting(headers=BEFORE)
    decision = put(draft(payload=b"<new/>", headers=AFTER), existing=[(Known.OTHER, item)])
    assert decision.changes == (ReplacePayload(item, b"<new/>", Jid("etl@x"), AFTER),)


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ([("n", "")] * 64, None),
        ([("n", "")] * 105, "an item has at most 104 headers"),
        ([("é" * 127, "")], None),
        ([("é" * 128 + "a", "")], "a header's name has at most 256 bytes"),
        ([("n", "v" * 16_383)], None),
        (
            [("n", "v" * 8_192), ("m", "é" * 4_096)],
            "the headers of an item have at most 16384 bytes",
        ),
    ],
)
def test_headers_have_bounds_and_the_refusal_names_them(headers, reason):
    decision = put(draft("i1"), draft("i2", headers=tuple(headers)))
    if reason is None:
        assert len(decision.changes) == 2
    else:
        assert decision == refused(Refusal.HEADERS_TOO_BIG, reason)


class TestFullNode:
    """A full queue refuses; nothing is dropped to make room (XEP-0254 row 26)."""

    def test_the_last_place_is_given(self):
        assert put(draft(), node=queue(items=2, max_items=3)).reply == OK

    def test_one_more_is_refused(self):
        decision = put(draft(), node=queue(items=3, max_items=3))
        assert decision == refused(Refusal.NODE_FULL, limit=3)

    def test_all_or_none_find_room(self):
        decision = put(draft("a"), draft("b"), node=queue(items=2, max_items=3))
        assert decision == refused(Refusal.NODE_FULL, limit=3)

    def test_more_items_than_the_node_could_ever_hold_are_too_many(self):
        decision = put(draft("a"), draft("b"), node=queue(max_items=1))
        assert decision == refused(Refusal.TOO_MANY_ITEMS, limit=1)

    @pytest.mark.parametrize("items", [3, 5], ids=["full", "above a bound that was lowered"])
    @pytest.mark.parametrize("known", [(Known.SAME, waiting()), (Known.OTHER, waiting())])
    def test_a_publish_that_needs_no_room_is_accepted_by_a_full_node(self, items, known):
        node = queue(items=items, max_items=3)
        expected = KNOWN if known[0] is Known.SAME else REPLACED
        assert put(draft(), node=node, existing=[known]).reply == expected


class TestPlainNode:
    """XEP-0060 7.1.2, on a plain node."""

    def test_every_subscriber_is_notified_of_the_item(self):
        given = draft()
        reported = (ToEach((ANN, BOB), Announce(NOBODY, JOBS, given, Jid("etl@x")), FLEETING),)
        decision = put(given, node=plain(), audience=(ANN, BOB))
        assert decision == Decision(OK, (added(given),), reported)

    @pytest.mark.parametrize("known", [Known.SAME, Known.OTHER])
    def test_the_same_id_overwrites_and_is_the_newest(self, known):
        item, given = waiting(), draft()
        decision = put(given, node=plain(items=3, max_items=3), existing=[(known, item)])
        assert decision == Decision(REPLACED, (RemoveItem(item), added(given, instead=item.seq)))


def test_a_node_for_one_kind_of_payload_takes_no_other():
    # XEP-0060 7.1.3.6
    decision = put(draft(type="urn:x"), draft("i2", type=""), node=queue(type="urn:x"))
    reason = "payloads of this node are in the namespace urn:x"
    assert decision == refused(Refusal.WRONG_PAYLOAD, reason)
    assert put(draft(type="urn:x"), node=queue(type="urn:x")).changes != ()


@pytest.mark.parametrize("wish", [{"delay": seconds(1)}, {"priority": -1}])
def test_a_plain_node_announces_at_once_so_it_takes_no_wishes(wish):
    decision = put(draft(**wish), node=plain())
    assert decision.reply.refusal is Refusal.BAD_REQUEST
    assert put(draft(ttl=seconds(1)), node=plain()).changes != ()


class TestWhatAPublishDemands:
    """The kind of the node, and that no item is replaced."""

    @pytest.mark.parametrize("queueing", [True, False])
    def test_a_node_of_the_other_kind_is_not_meant(self, queueing):
        other = plain() if queueing else queue()
        decision = put(draft(), node=other, queueing=queueing)
        assert decision == refused(Refusal.NODE_NOT_FOUND)
        same = queue() if queueing else plain()
        assert put(draft(), node=same, queueing=queueing).reply == OK

    @pytest.mark.parametrize(
        ("known", "reply"),
        [
            ((Known.NEW, None), OK),
            ((Known.SAME, waiting()), KNOWN),
            ((Known.FINISHED, None), KNOWN),
        ],
    )
    def test_a_publish_that_replaces_no_item_is_done(self, known, reply):
        assert put(draft(), existing=[known], only_new=True).reply == reply

    @pytest.mark.parametrize("state", [State.QUEUED, State.DELAYED])
    def test_an_item_of_a_queue_is_not_replaced(self, state):
        known = [(Known.OTHER, waiting(state=state))]
        decision = put(draft(), existing=known, only_new=True)
        assert decision == refused(Refusal.PRECONDITION_NOT_MET, "there is another item i1")

    @pytest.mark.parametrize("known", [Known.SAME, Known.OTHER])
    def test_an_item_of_a_plain_node_is_not_overwritten(self, known):
        decision = put(draft(), node=plain(), existing=[(known, waiting())], only_new=True)
        assert decision == refused(Refusal.PRECONDITION_NOT_MET, "there is another item i1")
