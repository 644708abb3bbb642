"""Items that nobody has begun, in their order."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pubqueue_xeps.item import Item


class WaitingItems(asyncio.Queue["Item | None"]):
    """A queue that items may also leave without being taken; None, its end, stays behind them all."""

    def _init(self, maxsize: int) -> None:  # noqa: ARG002 - the signature of asyncio's
        self._queue: dict[Item | None, None] = {}

    def _put(self, item: Item | None) -> None:
        self._queue[item] = None

    def _get(self) -> Item | None:
        item = next(iter(self._queue))
        del self._queue[item]
        return item

    def leave(self, item: Item) -> None:
        """Forget an item, if it is here."""
        self._queue.pop(item, None)
