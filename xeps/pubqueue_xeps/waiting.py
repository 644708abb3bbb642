"""Items that nobody has begun, in their order."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pubqueue_xeps.item import Item


class WaitingItems(asyncio.Queue["Item | None"]):
    """A queue that items may also leave without being taken; None, its end, stays behind them all."""

    def _init(self, maxsize: int) -> None:  # noqa: ARG002 - the signature of asyncio's
        self._queue: dict[Item | None, None] = {}
        self._news = asyncio.Event()

    def _put(self, item: Item | None) -> None:
        self._queue[item] = None
        self._news.set()

    def _get(self) -> Item | None:
        item = next(iter(self._queue))
        del self._queue[item]
        return item

    def leave(self, item: Item) -> None:
        """Forget an item, if it is here."""
        self._queue.pop(item, None)

    async def pick(self, wanted: Callable[[Iterable[Item]], Item | None]) -> Item | None:
        """Take the item that `wanted` returns of those that wait; None at the end, when none waits any more.

        It is asked again when one is added, and by `look_again`. One task at a time may wait here.
        """
        while True:
            self._news.clear()
            item = wanted(item for item in self._queue if item is not None)
            if item is not None:
                self.leave(item)
                return item
            if next(iter(self._queue), self) is None:
                return None
            await self._news.wait()

    def look_again(self) -> None:
        """Have `pick` ask again."""
        self._news.set()
