"""The items of one call of a handler that takes several at a time. Each is settled by itself.

@app.handler("flight", batch=100, within=0.5)
async def insert(items: Items[Item]) -> None:
    for item, error in await table.insert([item.data for item in items]):
        items.settle(item, Failed("not inserted") if error else None)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar, overload

from pubqueue_xeps.item import BlockingItem, Item
from pubqueue_xeps.wire.then import Then
from pubqueue_xeps.wire.waits import Hold

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Items"]

I = TypeVar("I", bound=Item | BlockingItem)  # noqa: E741 - an item


class Items(Sequence[I]):
    """A handler's items, in the order of their delivery: `Item`, or `BlockingItem` for a plain function.

    The handler says with `settle` what becomes of an item. When it returns, all others are done. When it raises, or its
    time limit has passed, the exception counts for all others, each by its own failures. The worker then settles all of
    them at once; what the handler has settled itself, as by `await item.retract()`, it leaves alone. Items keep their
    own locks, headers and replies.
    """

    def __init__(self, items: Iterable[I]) -> None:
        self._items = tuple(items)
        self._ends: dict[I, Exception | Hold | Then | None] = {}
        self._ours = frozenset(self._items)

    @overload
    def __getitem__(self, at: int, /) -> I: ...
    @overload
    def __getitem__(self, at: slice, /) -> Sequence[I]: ...
    def __getitem__(self, at: int | slice, /) -> I | Sequence[I]:
        return self._items[at]

    def __len__(self) -> int:
        return len(self._items)

    def settle(self, item: I, how: Exception | Hold | Then | None = None) -> None:
        """Decide on an item, whatever becomes of the others: it is done, or `how` counts as if a handler had raised or returned it.

        So Release, Failed and Reject do what they say, and any other exception is a failure, retried as the handler's
        limits say; Hold lets the item wait, and Then publishes its follow-ups in the commit of its end. The last decision
        on an item counts. Nothing is sent until the handler has ended. Raises ValueError for an item that is not one of
        these, TypeError if `how` is something else.
        """
        if item not in self._ours:
            raise ValueError(f"The item {item.id!r} of {item.node} is none of this call.")
        if how is not None and not isinstance(how, Exception | Hold | Then):
            raise TypeError(
                f"An item is settled with an exception, Hold, Then or None, not with {how!r}."
            )
        self._ends[item] = how

    def settled(self) -> dict[I, Exception | Hold | Then | None]:
        """Return what `settle` has decided, by item; None is done."""
        return dict(self._ends)
