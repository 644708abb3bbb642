"""A publish to a plain node that feeds queues: its effect on each queue, cell by cell, and refusals."""

from itertools import product

import pytest
from harness.batches.facts import BOSS, ETL, EVE, JOBS, NOW, draft, held, plain, queue, waiting, who
from msgspec.structs import replace

from pubqueue.model.changes import (
    AddItem,
    BeginTrim,
    ConfigureNode,
    NoteLeftOut,
    ReplacePayload,
)
from pubqueue.model.decision import Published, Refusal, Refused
from pubqueue.model.entities import (
    MAX_ID_LENGTH,
    AccessModel,
    Affiliation,
    AtExpiry,
    Feed,
    ItemId,
    Jid,
    NodeConfig,
    NodeName,
    State,
    seconds,
)
from pubqueue.model.records import Holding, Quota
from pubqueue.rules.access import Other, Others
from pubqueue.rules.feed import (
    AT_ONCE,
    BYTES_AT_ONCE,
    MAX_FED,
    OF_OWNERS,
    Feeder,
    attached,
    detached,
    elsewhere,
    follows,
    forbidden,
    has_place,
    is_guest,
    may_feed,
    reconsidered,
    unfit,
)
from pubqueue.rules.publication import MAX_BYTES, MAX_COPIES, Fed, Known, Met, Publish, PublishFacts
from pubqueue.rules.publish import publish_at_once
from pubqueue.rules.room import Allowance
from pubqueue.rules.trimming import ResumeTrims

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
        hosts=sum(not one.is_guest for one in fed) if fed else len(node.config.feeds),
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


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"max_items": 1, "items": 1}, "node full (1)"),
        ({"max_bytes": 3}, "node full: the items of this node may have up to 3 bytes, and have 0"),
        ({"publish_paused": True}, "publish paused"),
        ({"max_payload_size": 3}, "payload too big (3)"),
        ({"type": "urn:y"}, "wrong payload: payloads of this node are in the namespace urn:y"),
    ],
)
def test_a_queue_of_a_guest_refuses_nothing_and_counts_what_it_could_not_take(config, said):
    guest = replace(fed("b", **config), is_guest=True)
    decision = put(draft(), fed=[fed("a"), guest])
    assert decision.reply == Published(JOBS, (ItemId("i1"),))
    assert len(into(decision)) == 1
    assert into(decision, "b") == [NoteLeftOut(NodeName("b"), 1, NOW, said)]


def test_a_guest_takes_as_many_as_it_has_room_for_in_order():
    guest = replace(fed("b", *[NEW] * 3, max_items=5, items=3), is_guest=True)
    decision = put(draft("i1"), draft("i2"), draft("i3"), fed=[guest])
    *added, missed = into(decision, "b")
    assert [one.draft.id for one in added] == ["i1", "i2"]
    assert (missed.items, missed.why) == (1, "node full (5)")


def test_a_guest_that_has_the_item_leaves_nothing_out():
    known = Met(Known.SAME, waiting(node=NodeName("b")))
    guest = replace(fed("b", known, publish_paused=True), is_guest=True)
    assert into(put(draft(), fed=[guest]), "b") == []


def test_the_quota_of_a_guest_is_its_own_matter():
    mine, hers = allowance("boss@x", 8, 10), allowance("eve@x", 9, 10)
    guests = [replace(fed(name), allowance=hers, is_guest=True) for name in "bc"]
    decision = put(draft(), fed=[replace(fed("a"), allowance=mine), *guests], allowance=mine)
    assert isinstance(decision.reply, Published)
    assert [type(one) for one in into(decision, "b")] == [AddItem]
    assert [type(one) for one in into(decision, "c")] == [NoteLeftOut]


def test_a_guest_that_shares_the_quota_of_the_node_gets_what_is_left():
    mine = allowance("boss@x", 9, 10)
    guest = replace(fed("b"), allowance=mine, is_guest=True)
    decision = put(draft(), fed=[guest], allowance=mine)
    assert isinstance(decision.reply, Published)
    assert [type(one) for one in into(decision, "b")] == [NoteLeftOut]


def test_a_guest_that_drops_its_oldest_is_trimmed_after_the_answer():
    guest = replace(fed("b", items=1, max_items=1, expired=AtExpiry.TRUNCATE), is_guest=True)
    decision = put(draft(), fed=[guest])
    assert (decision.then, decision.beside) == (None, (ResumeTrims(),))
    assert BeginTrim(NodeName("b")) in decision.changes


@pytest.mark.parametrize(
    ("affiliation", "admin", "guest"),
    [
        (Affiliation.OWNER, False, False),
        (Affiliation.PUBLISHER, False, False),
        (Affiliation.MEMBER, False, True),
        (Affiliation.NONE, False, True),
        (Affiliation.NONE, True, False),
    ],
)
def test_queues_of_owners_and_publishers_are_no_guests(affiliation, admin, guest):
    assert is_guest(who(EVE, admin=admin), affiliation) is guest


def test_what_is_much_for_guests_follows_the_commit():
    few = Publish(who(ETL), JOBS, tuple(draft(f"i{at}") for at in range(5)))
    assert not follows(few, AT_ONCE // 5)
    assert follows(few, AT_ONCE // 5 + 1)
    assert not follows(replace(few, guests_follow=True), 0)
    assert follows(replace(few, guests_follow=True), 1)
    large = Publish(who(ETL), JOBS, (draft(payload=b"x" * (BYTES_AT_ONCE // 2)),))
    assert (follows(large, 2), follows(large, 3)) == (False, True)


def test_one_account_never_has_all_places_and_some_are_for_owners():
    def filled(by, affiliation, node):
        count = 0
        while has_place(by, affiliation, node):
            feeds = (*node.config.feeds, Feed(NodeName(f"{by.account}{count}"), by.account))
            node = replace(node, config=replace(node.config, feeds=feeds))
            count += 1
        return count, node

    node = plain()
    counts = []
    for name in ("eve@x", "bob@x", "ann@x", "dan@x"):
        count, node = filled(who(name), Affiliation.NONE, node)
        counts.append(count)
    assert counts == [40, 20, 10, 5]
    owned, node = filled(who("boss@x"), Affiliation.OWNER, node)
    assert owned == MAX_FED - sum(counts)
    assert OF_OWNERS == MAX_FED - 80


def test_a_place_is_refused_to_an_account_that_has_its_share():
    hers = [Feed(NodeName(f"q{number}"), Jid("eve@x")) for number in range(40)]
    no = forbidden(who(EVE), UNFED, FED, others(a_topic(*hers)))
    assert (no.refusal, no.setting) == (Refusal.INVALID_CONFIG, "source")
    assert no.reason == "source: the places that 'news' has left are for others"
    assert forbidden(who("bob@x"), UNFED, FED, others(a_topic(*hers))) is None


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


# Who may set the source of a queue, to which nodes, and what ends feeding.

NEWS = NodeName("news")
FED = NodeConfig(queueing=True, source=NEWS)
UNFED = NodeConfig(queueing=True)
MINE = Feed(JOBS, Jid("boss@x"))


def a_topic(*feeds, name=NEWS, **config):
    return replace(plain(feeds=feeds, **config), name=name)


def others(*nodes, affiliation=Affiliation.NONE, subscribed=False):
    return Others({node.name: Other(node, affiliation, subscribed) for node in nodes})


# the access model of the plain node -> what an account has to be to have a queue fed, if it does not subscribe; if it does
MEMBERS = {Affiliation.OWNER, Affiliation.PUBLISHER, Affiliation.MEMBER}
MAY = {
    AccessModel.OPEN: (MEMBERS | {Affiliation.NONE}, MEMBERS | {Affiliation.NONE}),
    AccessModel.AUTHORIZE: (MEMBERS, MEMBERS | {Affiliation.NONE}),
    AccessModel.PRESENCE: (MEMBERS, MEMBERS),
    AccessModel.ROSTER: (MEMBERS, MEMBERS),
    AccessModel.WHITELIST: (MEMBERS, MEMBERS),
}


def test_accounts_that_may_set_a_source():
    answers, expected = {}, {}
    for cell in product(AccessModel, Affiliation):
        model, affiliation = cell
        node = a_topic(access_model=model)
        asked = [(who(EVE), False), (who(EVE), True), (who(EVE, admin=True), False)]
        answers[cell] = [may_feed(by, affiliation, node, subscribed=it) for by, it in asked]
        expected[cell] = [*(affiliation in known for known in MAY[model]), True]
    assert answers == expected


@pytest.mark.parametrize(
    ("after", "there", "said"),
    [
        (NodeConfig(source=NEWS), a_topic(), "only a queue has a source"),
        (FED, None, "there is no node 'news'"),
        (FED, queue(name=NEWS), "'news' is a queue, and only a plain node feeds queues"),
        (FED, a_topic(*[MINE] * MAX_FED), "'news' feeds 100 queues already, and no more"),
        (FED, a_topic(*[MINE] * (MAX_FED - 1)), None),
        (UNFED, None, None),
    ],
)
def test_nodes_that_can_be_a_source(after, there, said):
    no = unfit(JOBS, UNFED, after, others(*filter(None, [there])))
    assert (None if no is None else no.reason) == (None if said is None else f"source: {said}")
    assert no is None or (no.refusal, no.setting) == (Refusal.INVALID_CONFIG, "source")


def test_a_node_is_not_its_own_source():
    assert unfit(JOBS, NodeConfig(), replace(FED, source=JOBS), others(plain())) is not None


def test_a_source_that_stays_is_not_judged_again():
    assert unfit(JOBS, FED, replace(FED, title="x"), others()) is None
    assert forbidden(who(EVE), FED, FED, others()) is None


def test_an_account_that_may_not_subscribe_to_the_source_is_refused():
    closed = a_topic(access_model=AccessModel.WHITELIST)
    no = forbidden(who(EVE), UNFED, FED, others(closed))
    assert (no.refusal, no.reason) == (
        Refusal.FORBIDDEN,
        "source: you may not subscribe to 'news'",
    )
    assert forbidden(who(EVE), UNFED, FED, others(closed, affiliation=Affiliation.MEMBER)) is None


def test_plain_nodes_keep_the_queues_they_feed_and_the_accounts_that_set_it():
    other = Feed(NodeName("other"), Jid("eve@x"))
    old, new = a_topic(other, MINE), a_topic(other, name=NodeName("new"))
    assert attached(who(BOSS), JOBS, FED, FED, others()) == ()
    assert attached(who(BOSS), JOBS, UNFED, FED, others(a_topic())) == (
        ConfigureNode(NEWS, a_topic(MINE).config),
    )
    assert attached(who(BOSS), JOBS, FED, UNFED, others(old)) == (
        ConfigureNode(NEWS, a_topic(other).config),
    )
    moved = attached(who(BOSS), JOBS, FED, replace(FED, source="new"), others(old, new))
    assert moved == (
        ConfigureNode(NEWS, a_topic(other).config),
        ConfigureNode(NodeName("new"), a_topic(other, MINE).config),
    )


def test_a_deleted_node_feeds_none_and_is_fed_by_none():
    fed = replace(queue(), config=FED)
    assert detached(fed, others(a_topic(MINE))) == (ConfigureNode(NEWS, a_topic().config),)
    assert detached(a_topic(MINE), others(fed)) == (ConfigureNode(JOBS, UNFED),)
    assert detached(a_topic(), others()) == detached(queue(), others()) == ()


def test_feeding_ends_when_the_right_to_subscribe_is_lost():
    eves = Feed(NodeName("hers"), Jid("eve@x"))
    hers = replace(queue(name="hers"), config=FED)
    feeders = [
        Feeder(replace(queue(), config=FED), MINE, who("boss@x"), Affiliation.OWNER),
        Feeder(hers, eves, who("eve@x"), Affiliation.MEMBER),
    ]
    node = a_topic(MINE, eves, access_model=AccessModel.WHITELIST)
    ended = (
        ConfigureNode(NodeName("hers"), UNFED),
        ConfigureNode(NEWS, replace(node.config, feeds=(MINE,))),
    )
    assert reconsidered(node, feeders, {}) == ()
    assert reconsidered(node, feeders, {Jid("eve@x"): Affiliation.NONE}) == ended
    assert reconsidered(node, feeders, {Jid("eve@x"): Affiliation.PUBLISH_ONLY}) == ended
    strangers = [feeders[0], Feeder(hers, eves, who("eve@x"), Affiliation.NONE)]
    assert reconsidered(node, strangers, {}) == ended
