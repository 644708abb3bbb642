"""The queue: delivers the ready message with the lowest number to a free subscriber."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final, Protocol

from pubqueue.curb.journal import DELIVERED, DONE, READY

if TYPE_CHECKING:
    from pubqueue.curb.journal import Journal


class Subscriber(Protocol):
    """Gets one message at a time."""

    @property
    def is_free(self) -> bool:
        """Whether it may get a message now."""

    def deliver(self, number: int, body: bytes) -> None:
        """Send it."""


class Queue:
    """The messages of a journal that are not done, and the subscribers that wait for them."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self._free: dict[Subscriber, None] = {}  # in the order in which they became free
        self._returned: list[int] = []
        self._behind = 0  # all up to this number were delivered once

    def wait(self, one: Subscriber) -> None:
        """Let a free subscriber have its turn."""
        self._free.setdefault(one)

    def leave(self, one: Subscriber) -> None:
        """Remove the subscriber."""
        self._free.pop(one, None)

    def release(self, number: int) -> None:
        """Queue a message that was delivered."""
        self.journal.mark(number, READY)
        heappush(self._returned, number)

    def finish(self, number: int) -> None:
        """End a message that was delivered."""
        self.journal.mark(number, DONE)

    def dispatch(self) -> None:
        """Deliver ready messages to free subscribers."""
        for one in tuple(self._free):
            if one.is_free:
                number = self._next()
                if number is None:
                    return
                self.journal.mark(number, DELIVERED)
                one.deliver(number, self.journal.body(number))
            self.leave(one)

    def _next(self) -> int | None:
        if self._returned:
            return heappop(self._returned)
        number = self.journal.next_behind(self._behind)
        self._behind = self._behind if number is None else number
        return number


# Limits how much all clients together keep here of incomplete frames: the client that began its frame first is ended.
#
# A frame that arrives complete costs nothing here, and small ones are not counted.

MAX_UNFINISHED: Final = 32 << 20
"""Bytes of unfinished frames, over all clients."""
SMALL: Final = 4 << 10
"""Bytes of one client that are not counted: all clients together have few of them."""


class Slow(Protocol):
    """A client that has begun a frame."""

    def give_up(self) -> None:
        """Drop what it has received, and end."""


class Unfinished:
    """Clients with a large incomplete frame, by when they began it."""

    def __init__(self, most: int = MAX_UNFINISHED) -> None:
        self._most = most
        self._sizes: dict[Slow, int] = {}
        self.size = 0

    def note(self, one: Slow, size: int, *, is_new: bool) -> None:
        """Note how much a client keeps here; `is_new`: of another frame than before."""
        if is_new or size <= SMALL:
            self.forget(one)
        if size > SMALL:
            self.size += size - self._sizes.get(one, 0)
            self._sizes[one] = size
        while self.size > self._most:
            slowest = next(iter(self._sizes))
            self.forget(slowest)
            slowest.give_up()

    def forget(self, one: Slow) -> None:
        """Note that a client keeps nothing here."""
        self.size -= self._sizes.pop(one, 0)
