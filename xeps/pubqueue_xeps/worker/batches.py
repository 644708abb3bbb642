"""Gathers items for a handler that takes several at a time.

Each item comes with a task of its own, in which its middleware runs: innermost, `join` waits for the call that the item
is in, and returns or raises what became of this item. So limits, middleware and the end of an item are those of a
handler of single items. An item that its middleware keeps for long goes into a later call, and holds up none.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING

from pubqueue_xeps.items import Items

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pubqueue_xeps.item import BlockingItem, Item

    Call = Callable[..., Awaitable[Exception | None]]
    """Calls the handler with Items, and a list of their payloads if it takes them; returns what it has raised."""


class Member:
    """An item that waits for a call; `given` is what the handler gets for it."""

    __slots__ = ("batch", "ended", "given", "item", "payload")

    def __init__(
        self, batch: Batch, item: Item, given: Item | BlockingItem, payload: tuple[object, ...]
    ) -> None:
        self.batch, self.item = batch, item
        self.given, self.payload = given, payload
        self.ended: asyncio.Future[object] = asyncio.get_running_loop().create_future()


class Batch:
    """Items that are being gathered for one call, or are in it."""

    __slots__ = ("members", "task")

    def __init__(self) -> None:
        self.members: list[Member] = []
        self.task: asyncio.Task[None] | None = None

    @property
    def is_abandoned(self) -> bool:
        """Whether no item waits for the result."""
        return all(member.ended.done() for member in self.members)


class Batches:
    """The calls of one handler, up to `size` items in each, or those that came `within` seconds of the first.

    `has_place` returns whether one more call may begin; `calls` run now. `on_end` is called when one has ended.
    """

    def __init__(
        self,
        size: int,
        within: float,
        call: Call,
        *,
        has_place: Callable[[], bool],
        on_end: Callable[[], object],
    ) -> None:
        self._size, self._within = size, within
        self._call, self._has_place, self._on_end = call, has_place, on_end
        self._context = copy_context()
        """That of a call, which belongs to no single item."""
        self._open = Batch()
        self._closed: deque[Batch] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._is_last = False
        self._called: dict[Item, Exception | None] = {}
        """The items that are, or were, in a call, until they have ended; and what the call has raised for them."""
        self.calls = 0

    def has_room(self, busy: int) -> bool:
        """Return whether one more item may be begun, if `busy` are begun and have not ended."""
        gathered = busy - len(self._called)
        return gathered < self._size if gathered else self._has_place()

    def is_shared(self, item: Item, error: Exception) -> bool:
        """Return whether the call that an item was in has raised this for all of its items."""
        return self._called.get(item) is error

    def forget(self, item: Item) -> None:
        """Note that an item has ended."""
        self._called.pop(item, None)

    async def join(self, item: Item, given: Item | BlockingItem, *payload: object) -> object:
        """Wait for the call that an item is in; return or raise what counts for this item.

        The handler gets `given`, and `payload` if it takes payloads.
        """
        member = Member(self._open, item, given, payload)
        self._open.members.append(member)
        if len(self._open.members) >= self._size or self._is_last:
            self._close()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._within, self._close)
        try:
            return await member.ended
        except asyncio.CancelledError:
            await self._leave(member)
            raise

    def finish(self) -> None:
        """Note that no more items come: wait for none."""
        self._is_last = True
        self._close()

    def begin(self) -> None:
        """Begin the calls for which there is a place."""
        while self._closed and self._has_place():
            batch = self._closed.popleft()
            if batch.members:  # else all have left
                self.calls += 1
                self._called.update(dict.fromkeys(member.item for member in batch.members))
                batch.task = asyncio.create_task(self._run(batch), context=self._context.copy())
                # not at the end of `_run`, which never begins if it is cancelled at once
                batch.task.add_done_callback(partial(self._over, batch))

    async def _leave(self, member: Member) -> None:
        """Cancel a call that no item waits for any more; return when the handler has cleaned up."""
        batch = member.batch
        if batch.task is None:
            batch.members.remove(member)
        elif batch.is_abandoned:
            batch.task.cancel()
            await asyncio.wait({batch.task})

    def _close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._open.members:
            self._closed.append(self._open)
            self._open = Batch()
        self.begin()

    async def _run(self, batch: Batch) -> None:
        members = batch.members
        items = Items(member.given for member in members)
        payloads = [one for member in members for one in member.payload]
        error = await self._call(items, payloads) if payloads else await self._call(items)
        ends = items.settled()
        for member in members:
            if member.given not in ends and member.item in self._called:
                self._called[member.item] = error
            _end(member.ended, ends.get(member.given, error))

    def _over(self, batch: Batch, _task: object) -> None:
        for member in batch.members:  # those of a call that was cancelled
            member.ended.cancel()
        self.calls -= 1
        self.begin()
        self._on_end()


def _end(ended: asyncio.Future[object], how: object) -> None:
    if ended.done():
        return
    if isinstance(how, Exception):
        ended.set_exception(how)
    else:
        ended.set_result(how)
