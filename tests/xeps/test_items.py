"""What a handler of batches decides on its items."""

import asyncio

import pytest

from pubqueue import Failed, Items, Reject, Release
from pubqueue.testing import make_item, make_items


def test_they_are_a_sequence_in_their_order():
    one, two, three = (make_item(id=name) for name in ("a", "b", "c"))
    items = Items([one, two, three])
    assert (len(items), items[0], items[1:], list(items)) == (
        3,
        one,
        (two, three),
        [one, two, three],
    )


def test_the_last_decision_on_an_item_counts():
    one, two = make_item(), make_item()
    items, no = Items([one, two]), Reject("departed")
    items.settle(one, Failed("later"))
    items.settle(one, no)
    items.settle(two)
    assert items.settled() == {one: no, two: None}


def test_only_an_item_of_the_call_is_settled_and_only_by_an_end():
    one = make_item(id="a")
    with pytest.raises(ValueError, match="The item 'b' of jobs is none of this call"):
        Items([one]).settle(make_item(id="b"))
    with pytest.raises(TypeError, match="with an exception, Hold, Then or None, not with 'no'"):
        Items([one]).settle(one, "no")
    with pytest.raises(TypeError, match="not with <class"):
        Items([one]).settle(one, Reject)


async def work(items, error=None):
    async with items:
        items.settle(items[0], Reject("departed"))
        items.settle(items[1], Release(60))
        items.settle(items[2])
        if error is not None:
            raise error


@pytest.mark.parametrize(
    ("error", "last"),
    [(None, None), (OSError("some text"), ("failed", "OSError")), (Failed("no"), ("failed", "no"))],
)
def test_the_end_of_a_call_counts_for_all_others(error, last):
    items = make_items(*(make_item() for _ in range(4)))
    if isinstance(error, OSError):
        with pytest.raises(OSError, match="some text"):
            asyncio.run(work(items, error))
    else:
        asyncio.run(work(items, error))
    found = [item.outcome and (item.outcome.type, item.outcome.reason) for item in items]
    assert found == [("reject", "departed"), ("release", None), None, last]
    assert items[2].state == "retracted"
