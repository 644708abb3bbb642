"""Whether a node has room, in items and in bytes, and which items an overfull node drops."""

import pytest
from harness.batches.facts import ETL, JOBS, NOW, draft, plain, queue, waiting
from msgspec.structs import replace

from pubqueue.model.after import after
from pubqueue.model.changes import AddItem, Lock, RemoveItem, ReplacePayload
from pubqueue.model.decision import Refusal
from pubqueue.model.entities import Jid, NodeConfig, State
from pubqueue.model.records import Holding, Quota, Quotas, weight
from pubqueue.rules.give_back import room_for
from pubqueue.rules.room import (
    Allowance,
    Growth,
    first_to_go,
    full,
    growth,
    growth_by,
    is_bounded,
    left_in,
    never_fits,
    overdrawn_together,
    surplus,
)

HEADERS = (("a", "bc"),)


def holding(items, size, **config):
    return replace(queue(items=items, **config), bytes=size)


# fmt: off
FULL = [  # what may be, what comes, whether it is refused
    ({},                                Growth(1, 10**12), False),
    ({"max_items": 3},                  Growth(1, 10**12), False),
    ({"max_items": 2},                  Growth(1, 1),      True),
    ({"max_items": 2},                  Growth(0, 1),      False),
    ({"max_bytes": 20},                 Growth(9, 10),     False),
    ({"max_bytes": 20},                 Growth(0, 11),     True),
    ({"max_bytes": 5},                  Growth(9, 0),      False),
    ({"max_bytes": 5},                  Growth(9, -1),     False),
    ({"max_items": 3, "max_bytes": 20}, Growth(2, 1),      True),
    ({"max_items": 3, "max_bytes": 20}, Growth(1, 11),     True),
]
# fmt: on


@pytest.mark.parametrize(("config", "more", "refused"), FULL)
def test_a_node_takes_what_it_may_hold_and_all_that_makes_it_no_larger(config, more, refused):
    no = full(holding(2, 10, **config), more)
    assert (no is not None) is refused
    assert no is None or no.refusal is Refusal.NODE_FULL


def test_the_refusal_has_both_numbers_of_bytes():
    no = full(holding(2, 10, max_bytes=20), Growth(1, 11))
    assert no.reason == "the items of this node may have up to 20 bytes, and have 10"
    no = never_fits(NodeConfig(max_bytes=20), [draft(payload=b"x" * 18, headers=HEADERS)])
    assert no.reason == "the node holds up to 20 bytes, and this has 21"


@pytest.mark.parametrize(
    ("config", "sizes", "refusal"),
    [
        ({}, [99, 99], None),
        ({"max_items": 2}, [99, 99], None),
        ({"max_items": 1}, [1, 1], Refusal.TOO_MANY_ITEMS),
        ({"max_bytes": 198}, [99, 99], None),
        ({"max_bytes": 197}, [99, 99], Refusal.PAYLOAD_TOO_BIG),
        ({"max_bytes": 1}, [], None),
    ],
)
def test_an_item_too_large_for_an_empty_node_never_fits(config, sizes, refusal):
    no = never_fits(NodeConfig(**config), [draft(payload=b"x" * size) for size in sizes])
    assert (no and no.refusal) is refusal


def test_headers_count_as_they_do_for_quotas():
    there = waiting(size=10)
    given = draft(payload=b"12345", headers=HEADERS)
    add = AddItem(JOBS, given, ETL, NOW, State.QUEUED, None, None)
    assert growth([add, RemoveItem(there)]) == Growth(0, -2)
    assert growth([ReplacePayload(there, b"12345", ETL, HEADERS)]) == Growth(0, -2)
    assert growth_by([given, given], [there]) == Growth(1, 6)
    assert Growth(1, 2) + Growth(3, 4) == Growth(4, 6)


@pytest.mark.parametrize(
    ("config", "left"),
    [
        ({}, (None, None)),
        ({"max_items": 5}, (3, None)),
        ({"max_bytes": 11}, (None, 1)),
        ({"max_items": 1, "max_bytes": 9}, (0, 0)),
    ],
)
def test_the_remaining_room_is_never_negative(config, left):
    node = holding(2, 10, **config)
    assert left_in(node) == left
    assert is_bounded(node.config) is bool(config)


OLDEST = tuple(waiting(seq, size=size) for seq, size in enumerate([1, 5, 5, 9], start=1))


@pytest.mark.parametrize(
    ("over", "count"),
    [
        (Growth(), 0),
        (Growth(2, 0), 2),
        (Growth(0, 1), 1),
        (Growth(0, 2), 2),
        (Growth(0, 6), 2),
        (Growth(3, 6), 3),
        (Growth(1, 7), 3),
        (Growth(0, 99), 4),
        (Growth(9, 0), 4),
    ],
)
def test_the_oldest_go_until_there_are_few_enough_and_small_enough(over, count):
    assert first_to_go(OLDEST, over) == OLDEST[:count]


def test_a_surplus_is_counted_in_items_and_in_bytes():
    node = replace(plain(items=5), bytes=50)
    assert surplus(node, None, None) == Growth()
    assert surplus(node, 4, 60) == Growth(1, 0)
    assert surplus(node, 5, 45, Growth(1, 2)) == Growth(1, 7)


# The quota of an account: the rule, cell by cell, and the weight of each change.

EVE, BOSS = Jid("eve@x"), Jid("boss@x")
SAID = (("näme", "v"), ("b", "ö"))


def adds(payload=b"<job/>", headers=()):
    one = replace(draft("i1"), payload=payload, headers=headers)
    return AddItem(JOBS, one, EVE, NOW, State.QUEUED, None, None, seq=1)


def test_an_item_counts_for_its_payload_and_the_bytes_of_its_headers():
    assert weight(b"12345", ()) == 5
    assert weight(b"12345", SAID) == 5 + 5 + 1 + 1 + 2
    assert after(adds(b"12345", SAID)).size == 14


def test_a_lock_leaves_what_it_counts_for_and_another_payload_does_not():
    item = after(adds(b"12345", SAID))
    assert after(Lock(item, EVE, 1, NOW, NOW)).size == 14
    assert after(ReplacePayload(item, b"123", EVE)).size == 3


@pytest.mark.parametrize(
    ("has", "limit", "refused"), [(2, 3, False), (3, 3, True), (4, 3, True), (4, 0, False)]
)
def test_one_more_node(has, limit, refused):
    no = Allowance(Holding(EVE, nodes=has), Quota(nodes=limit)).refuses_node()
    assert (no is not None) is refused
    if no is not None:
        assert no.refusal is Refusal.TOO_MANY_NODES
        assert f"{has} nodes" in no.reason
        assert f" may have {limit}" in no.reason


@pytest.mark.parametrize(
    ("items", "size", "what"),
    [
        (1, 10, None),  # as much as may be
        (2, 10, "3 items"),
        (1, 11, "30 bytes"),
        (0, 0, None),
        (-1, 11, "30 bytes"),
        (-1, -5, None),
    ],
)
def test_only_growth_beyond_the_quota_is_refused(items, size, what):
    mine = Allowance(Holding(EVE, 1, 2, 20), Quota(9, 3, 30))
    no = mine.refuses(items, size)
    assert (no is None) is (what is None)
    if no is not None:
        assert no.refusal is Refusal.TOO_MUCH_KEPT
        assert what in no.reason
        assert "eve" not in no.reason  # whoever publishes need not know whose it is


def test_an_account_over_its_quota_may_only_remove_and_repeat():
    over = Allowance(Holding(EVE, 1, 9, 90), Quota(1, 3, 30))
    assert over.refuses(0, 0) is None
    assert over.refuses(-1, -1) is None
    assert over.refuses(1, 0) is not None
    assert over.refuses(0, 1) is not None
    assert over.left() == (0, 0)


def test_no_bound_is_none():
    free = Allowance(Holding(EVE, 1, 9, 90), Quota(0, 0, 0))
    assert free.refuses(1_000_000, 1 << 40) is None
    assert free.left() == (None, None)


def test_the_quota_that_names_the_account_then_that_of_its_domain_then_the_usual():
    usual, mine, ours = Quota(1), Quota(2), Quota(3)
    quotas = Quotas(usual, {"eve@x": mine, "x": ours})
    assert [quotas.of(Jid(name)) for name in ("eve@x", "ann@x", "x", "ann@y", "eve@x.y")] == [
        mine,
        ours,
        ours,
        usual,
        usual,
    ]


def test_the_changes_of_a_publish_are_weighed_together():
    there = replace(after(adds(b"1234567890")), seq=7)
    changes = [adds(b"12345"), adds(b"123"), RemoveItem(there), ReplacePayload(there, b"1", EVE)]

    def overdrawn(allowance, made):
        more = growth(made)
        return allowance.refuses(more.items, more.bytes)

    # 2 - 1 items; 8 - 10 - 9 bytes
    assert overdrawn(Allowance(Holding(EVE, 1, 1, 11), Quota(1, 2, 11)), changes) is None
    assert overdrawn(Allowance(Holding(EVE, 1, 2, 11), Quota(1, 2, 11)), changes) is not None
    assert overdrawn(Allowance(Holding(EVE, 1, 0, 11), Quota(1, 2, 11)), changes[:1]) is not None


def test_items_in_several_nodes_are_added_up_by_payer():
    eve, boss = (Allowance(Holding(who, 2, 0, 0), Quota(2, 5, 100)) for who in (EVE, BOSS))
    assert overdrawn_together([(eve, 3), (eve, 2), (boss, 5), (None, 99)], 100) is None
    assert overdrawn_together([(eve, 3), (eve, 3)], 0) is not None
    assert overdrawn_together([(eve, 1), (boss, 1)], 101) is not None
    assert overdrawn_together([(eve, 0)], 101) is None  # what is there already takes nothing


@pytest.mark.parametrize(
    ("max_items", "creator", "room"),
    [
        (None, EVE, (2, 20)),
        (1, EVE, (1, 20)),
        (3, EVE, (2, 20)),
        (None, BOSS, (None, None)),
        (3, BOSS, (3, None)),
    ],
)
def test_dead_items_take_room_of_another_account_alone(max_items, creator, room):
    place = replace(queue(name="dead", max_items=max_items), creator=creator)
    mine = Allowance(Holding(creator, 1, 1, 10), Quota(1, 3, 30))
    assert room_for(place, queue(), mine) == room
    assert room_for(place, queue(), None) == (max_items, None)
