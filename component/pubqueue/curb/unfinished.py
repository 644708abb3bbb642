"""Limits how much all clients together keep here of incomplete frames: the client that began its frame first is ended.

A frame that arrives complete costs nothing here, and small ones are not counted.
"""

from __future__ import annotations

from typing import Final, Protocol

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
