"""A publish to a plain node that feeds queues: its effect on each queue, cell by cell, and refusals."""

import pytest
from harness.batches.facts import ETL, JOBS, NOW, draft, held, plain, queue, waiting, who
from msgspec.structs import replace

from pubqueue.model.changes import AddItem, ReplacePayload
from pubqueue.model.decision import Published, Refusal, Refused
from pubqueue.model.entities import (
    MAX_ID_LENGTH,
    Affiliation,
    Feed,
    ItemId,
    Jid,
    NodeName,
    State,
    seconds,
)
from pubqueue.model.records import Holding, Quota
from pubqueue.rules.feed import elsewhere
from pubqueue.rules.publication import MAX_BYTES, MAX_COPIES, Fed, Known, Met, Publish, PublishFacts
from pubqueue.rules.publish import publish_at_once
from pubqueue.rules.room import Allowance

NEW = Met(Known.NEW, None)
OTHER_ID = ItemId("i1.0a")


def topic(*queues, **config):
    feeds = tuple(Feed(NodeName(name), Jid("boss@x")) for name in queues)
    return plain(feeds=feeds, **config)


def put(*drafts, fed, node=None, **facts):
    node = topic(*(one.queue.name for one in fed)) if node is None else node
    existing = ((Known.NEW, None),) * len(drafts)
    known = PublishFacts(
        NOW,
        node,
        Affiliation.PUBLISHER,
        subscribed=False,
        existing=existing,
        fed=tuple(fed),
        **facts,
    )
    return publish_at_once(Publish(who(ETL), JOBS, drafts), known)


def fed(name="a", *met, **config):
    return Fed(queue(name=name, **config), met or (NEW,))


def into(decision, name="a"):
    """Return the changes of a queue."""
    return [
        change
        for change in decision.changes
        if getattr(change, "node", None) == name
        or (isinstance(change, ReplacePayload) and change.item.node == name)
    ]


# what a queue knows of the id -> under which id the item is added there; None: nothing is; the item: it is replaced
CELLS = [
    (Met(Known.NEW, None), "i1"),
    (Met(Known.FINISHED, None), None),
    (Met(Known.SAME, waiting()), None),
    (Met(Known.SAME, waiting(state=State.DELAYED)), None),
    (Met(Known.SAME, held()), None),
    (Met(Known.SAME, waiting(state=State.DEAD)), None),
    (Met(Known.OTHER, held(), OTHER_ID), OTHER_ID),
    (Met(Known.OTHER, held(), OTHER_ID, repeated=True), None),
    (Met(Known.OTHER, waiting(state=State.DEAD), OTHER_ID), OTHER_ID),
    (Met(Known.OTHER, waiting(state=State.DEAD), OTHER_ID, repeated=True), None),
    (None, None),
]


@pytest.mark.parametrize(("met", "added"), CELLS)
def test_items_that_a_fed_queue_accepts(met, added):
    decision = put(draft(), fed=[Fed(queue(name="a"), (met,))])
    assert decision.reply == Published(JOBS, (ItemId("i1"),))
    assert [change.draft.id for change in into(decision)] == ([] if added is None else [added])


@pytest.mark.parametrize("state", [State.QUEUED, State.DELAYED])
def test_the_payload_of_an_item_that_waits_is_replaced(state):
    item = waiting(state=state, node=NodeName("a"))
    decision = put(draft(payload=b"<new/>"), fed=[fed("a", Met(Known.OTHER, item))])
    assert into(decision) == [ReplacePayload(item, b"<new/>", Jid("etl@x"))]


def test_each_queue_has_the_item_in_one_decision_and_by_its_own_settings():
    given = draft(ttl=seconds(9))
    decision = put(given, fed=[fed("a"), fed("b", item_expire=5)])
    facts = Jid("etl@x"), NOW, State.QUEUED, None
    assert decision.changes == (
        AddItem(JOBS, given, *facts, NOW + seconds(9)),
        AddItem(NodeName("a"), given, *facts, NOW + seconds(9)),
        AddItem(NodeName("b"), given, *facts, NOW + seconds(5)),
    )


@pytest.mark.parametrize(
    ("config", "refusal", "said"),
    [
        ({"max_items": 1, "items": 1}, Refusal.NODE_FULL, "node full (1)"),
        ({"publish_paused": True}, Refusal.PUBLISH_PAUSED, "publish paused"),
        ({"max_payload_size": 3}, Refusal.PAYLOAD_TOO_BIG, "payload too big (3)"),
        (
            {"type": "urn:y"},
            Refusal.WRONG_PAYLOAD,
            "wrong payload: payloads of this node are in the namespace urn:y",
        ),
    ],
)
def test_a_queue_that_refuses_refuses_the_publish_by_its_name(config, refusal, said):
    decision = put(draft(), fed=[fed("a"), fed("b", **config)])
    assert isinstance(decision.reply, Refused)
    assert decision.reply.refusal is refusal
    assert decision.reply.reason == f"'jobs' feeds the queue 'b': {said}"
    assert decision.changes == ()


def test_a_queue_without_a_payload_to_take_refuses_what_a_node_without_payloads_takes():
    node = topic("a", deliver_payloads=False)
    decision = put(draft(payload=b""), fed=[fed("a")], node=node)
    assert decision.reply.refusal is Refusal.PAYLOAD_REQUIRED


def test_filtered_items_neither_fill_a_queue_nor_are_checked_by_it():
    full = Fed(queue(name="a", items=1, max_items=1, max_payload_size=1), (None,))
    assert put(draft(), fed=[full]).reply == Published(JOBS, (ItemId("i1"),))


def test_an_account_that_may_not_publish_feeds_no_queue():
    decision = put(draft(), fed=[fed("a")], node=topic("a", publish_paused=True))
    assert (decision.reply.refusal, decision.changes) == (Refusal.PUBLISH_PAUSED, ())
    assert "feeds" not in decision.reply.reason


def test_one_publish_brings_so_many_items_and_bytes_into_queues():
    names = [f"q{number}" for number in range(100)]
    queues = [fed(name, *(NEW,) * 20) for name in names]
    drafts = [draft(f"i{number}") for number in range(MAX_COPIES // 100 + 1)]
    node = topic(*names)
    assert len(put(*drafts[:-1], fed=queues, node=node).changes) == 20 + MAX_COPIES
    no = put(*drafts, fed=[], node=node).reply
    assert (no.refusal, no.limit) == (Refusal.TOO_MANY_ITEMS, 20)
    assert no.reason == "the node feeds 100 queues, so a publish has fewer items"
    large = draft(payload=b"x" * (MAX_BYTES // 100 + 1))
    no = put(large, fed=[], node=topic(*names, max_payload_size=MAX_BYTES)).reply
    assert (no.refusal, no.limit) == (Refusal.PAYLOAD_TOO_BIG, MAX_BYTES // 100)


def allowance(account, items, limit):
    return Allowance(Holding(Jid(account), 1, items), Quota(items=limit))


def test_the_creator_of_a_queue_pays_for_fed_items():
    queues = [replace(fed(name), allowance=allowance("eve@x", 8, 10)) for name in "abc"]
    assert len(put(draft(), fed=queues[:2]).changes) == 3
    no = put(draft(), fed=queues).reply
    assert no.refusal is Refusal.TOO_MUCH_KEPT
    assert no.reason.startswith("'jobs' feeds the queue 'a': too much kept: ")


def test_the_creator_of_the_plain_node_pays_for_queues_of_its_own_too():
    mine = allowance("boss@x", 9, 10)
    no = put(draft(), fed=[replace(fed("a"), allowance=mine)], allowance=mine).reply
    assert no.refusal is Refusal.TOO_MUCH_KEPT
    assert put(draft(), fed=[Fed(queue(name="a"), (None,), mine)], allowance=mine).changes


def test_the_other_id_is_of_the_item_and_its_payload_and_never_too_long():
    assert elsewhere(ItemId("i1"), b"\x01" * 32) == "i1." + "01" * 16
    assert elsewhere(ItemId("i1"), b"\x02" * 32) != elsewhere(ItemId("i1"), b"\x01" * 32)
    for name in ("x" * MAX_ID_LENGTH, "é" * (MAX_ID_LENGTH // 2)):
        assert 1000 < len(elsewhere(ItemId(name), b"\x01" * 32).encode()) <= MAX_ID_LENGTH


def test_a_node_that_keeps_no_items_passes_the_group_on():  # grpc G33
    grouped = draft(group="customer-17")
    decision = put(grouped, fed=[fed("a")], node=topic("a", persist_items=False))
    (mine,) = [change for change in into(decision, JOBS) if isinstance(change, AddItem)]
    assert mine.draft.group == "", "it is of queues"
    assert [change.draft.group for change in into(decision)] == ["customer-17"]


def test_a_node_that_keeps_items_refuses_a_group():
    for node in (topic("a"), topic()):
        reply = put(draft(group="customer-17"), fed=[], node=node).reply
        assert isinstance(reply, Refused)
        assert reply.refusal is Refusal.BAD_REQUEST
