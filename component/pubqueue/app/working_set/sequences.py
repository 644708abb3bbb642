"""Numbers of a sequence, reserved in blocks, so that most batches need no statement for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pubqueue.app.store.ports import Transaction

BLOCK: Final = 1000
"""Numbers that are reserved at a time. Those that a process does not use are never used."""


def delivered_mark(instance: int) -> str:
    """Return the sequence whose next number is the first lock token whose delivery the process does not know to be sent."""
    return f"told-{instance}" if instance else "told"


class Numbers:
    """A block of one sequence. It is valid only while no other process takes numbers, so numbers rise with commits."""

    def __init__(self, sequence: str) -> None:
        self._sequence = sequence
        self._next = self._end = 0

    def forget(self) -> None:
        """Drop the block: another process has taken numbers, or its reservation was rolled back."""
        self._next = self._end = 0

    def first(self, tx: Transaction, count: int) -> int:
        """Return the first of `count` consecutive unused numbers."""
        if self._end - self._next < count:
            size = max(BLOCK, count)
            self._next = tx.number(self._sequence, size)
            self._end = self._next + size
        return self._next

    @property
    def next(self) -> int:
        """The next number of the block, 0 if there is none. Lower numbers are used, or never will be."""
        return self._next

    def used(self, number: int) -> None:
        """Note that a number was used."""
        if number >= self._next:
            self._next = number + 1

    def take(self, tx: Transaction) -> int:
        """Return an unused number."""
        number = self._next if self._next < self._end else self.first(tx, 1)
        self._next = number + 1
        return number
