"""The queue: delivers the ready message with the lowest number to a free subscriber."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Protocol

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
