"""Items that are not begun, in order for each node, and from the nodes in turn."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pubqueue_xeps.item import Item
    from pubqueue_xeps.worker.weights import Turns


class WaitingItems(asyncio.Queue["Item | None"]):
    """A queue from which items can also be removed; None, its end marker, stays last.

    Nodes take turns by their weights, so that a long queue does not delay a short one.
    """

    def __init__(self, turns: Turns) -> None:
        super().__init__()
        self._turns = turns

    def _init(self, maxsize: int) -> None:  # noqa: ARG002 - the signature of asyncio's
        self._queue: dict[Item | None, None] = {}
        self._of_node: dict[str, dict[Item, None]] = {}
        """The waiting items by node."""
        self._news = asyncio.Event()

    def _put(self, item: Item | None) -> None:
        self._queue[item] = None
        if item is not None:
            if item.node not in self._of_node:
                self._turns.join(item.node)
            self._of_node.setdefault(item.node, {})[item] = None
        self._news.set()

    def _get(self) -> Item | None:
        item = next(self._in_turn(), None)
        if item is None:
            self._queue.pop(None)
        else:
            self._take(item)
        return item

    def leave(self, item: Item) -> None:
        """Remove an item, if it is here."""
        if item in self._queue:
            del self._queue[item]
            of_node = self._of_node[item.node]
            del of_node[item]
            if not of_node:
                del self._of_node[item.node]

    async def pick(self, wanted: Callable[[Iterable[Item]], Item | None]) -> Item | None:
        """Take the waiting item that `wanted` returns; None at the end, when none is left.

        `wanted` is called again when an item is added, and by `look_again`. Only one task may wait here.
        """
        while True:
            self._news.clear()
            item = wanted(self._in_turn())
            if item is not None:
                self._take(item)
                return item
            if next(iter(self._queue), self) is None:
                return None
            await self._news.wait()

    def look_again(self) -> None:
        """Make `pick` call `wanted` again."""
        self._news.set()

    def _in_turn(self) -> Iterator[Item]:
        return (item for node in self._turns.order(self._of_node) for item in self._of_node[node])

    def _take(self, item: Item) -> None:
        self.leave(item)
        self._turns.take(item.node)
