"""Whether a node has room, in items and in bytes, and which items an overfull node drops."""

import pytest
from harness.batches.facts import ETL, JOBS, NOW, draft, plain, queue, waiting
from msgspec.structs import replace

from pubqueue.model.changes import AddItem, RemoveItem, ReplacePayload
from pubqueue.model.decision import Refusal
from pubqueue.model.entities import NodeConfig, State
from pubqueue.rules.room import (
    Growth,
    first_to_go,
    full,
    growth,
    growth_by,
    is_bounded,
    left_in,
    never_fits,
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
