"""Messages that streams have delivered and not got back yet: the locks of this process's streams, by their tokens.

A lock ends by an acknowledgement or a nack, over the stream or by any other call, or at its deadline. Then its stream has room
again. One that is settled at another instance counts until its deadline.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pubqueue.rules.settle_each import LockName

if TYPE_CHECKING:
    from asyncio import TimerHandle
    from collections.abc import Callable

    from pubqueue.model.entities import Item, Millis

GRACE: Final = 0.05
"""Seconds after a deadline until the lock counts as ended."""


class Credit:
    """How many messages and bytes a stream may have outstanding; None: any number. `on_room` is called when there is room again."""

    def __init__(self, messages: int | None, size: int | None, on_room: Callable[[], None]) -> None:
        self.messages, self.bytes, self._on_room = messages, size, on_room
        self._size = 0
        self.tokens: set[int] = set()
        """The locks that are outstanding."""

    def room(self, most: int) -> int:
        """Return how many more messages may be delivered, up to `most`."""
        if self.bytes is not None and self._size >= self.bytes:
            return 0
        return (
            most if self.messages is None else max(0, min(most, self.messages - len(self.tokens)))
        )

    @property
    def byte_room(self) -> int | None:
        """How many more bytes may be delivered; the last message may exceed it."""
        return None if self.bytes is None else max(0, self.bytes - self._size)

    def use(self, token: int, size: int) -> None:
        """Count a message."""
        self.tokens.add(token)
        self._size += size

    def free(self, token: int, size: int) -> None:
        """Count a message no more."""
        self.tokens.discard(token)
        self._size -= size
        self._on_room()


class _Lock(Struct):
    name: LockName
    credit: Credit
    size: int
    timer: TimerHandle


class Outstanding:
    """The locks of all streams of a process. `now` is the time by which deadlines are set."""

    def __init__(self, now: Callable[[], Millis]) -> None:
        self._now = now
        self._locks: dict[int, _Lock] = {}

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._locks)

    def add(self, item: Item, credit: Credit) -> None:
        """Note an item that a stream delivers."""
        assert item.deadline is not None
        credit.use(item.token, item.size)
        name, ends = LockName(item.id, item.token, item.holder), item.deadline
        self._locks[item.token] = _Lock(name, credit, item.size, self._at(ends, item.token))

    def settled(self, token: int) -> None:
        """Note that a lock has ended."""
        lock = self._locks.pop(token, None)
        if lock is not None:
            lock.timer.cancel()
            lock.credit.free(token, lock.size)

    def extended(self, token: int, deadline: Millis) -> None:
        """Note that a lock ends at another time."""
        lock = self._locks.get(token)
        if lock is not None:
            lock.timer.cancel()
            lock.timer = self._at(deadline, token)

    def names(self, credit: Credit) -> list[LockName]:
        """Return the locks of a stream."""
        return [self._locks[token].name for token in credit.tokens]

    def leave(self, credit: Credit) -> None:
        """Forget a stream that has ended; its locks stay until their deadlines."""
        for token in credit.tokens:
            self._locks.pop(token).timer.cancel()
        credit.tokens.clear()

    def _at(self, deadline: Millis, token: int) -> TimerHandle:
        span = max(0.0, (deadline - self._now()) / 1000) + GRACE
        return asyncio.get_running_loop().call_later(span, self.settled, token)
