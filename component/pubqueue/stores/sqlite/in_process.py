"""Who serves from what is in this process alone: each number has its store, or none since that was closed without leaving."""

from __future__ import annotations

import asyncio
from itertools import count

from pubqueue.app.store.ports import FencedError, Instance
from pubqueue.stores.sqlite.instances import LOOK_AGAIN

Owners = dict[int, "Instances | None"]
"""Who has which number, for all stores at one place."""


class Instances:
    """Implements `pubqueue.app.store.ports.Instances` among those who have the same `owners`."""

    def __init__(self, owners: Owners) -> None:
        self._owners = owners
        self._number: int | None = None

    async def enter(self) -> Instance:
        """Take the first number that nobody has."""
        number = next(number for number in count() if self._owners.get(number) is None)
        died = number in self._owners
        self._owners[number] = self
        self._number = number
        return Instance(number, died)

    async def renew(self) -> None:
        """See that the number of this process is still its own; nobody else can hang here."""
        self.see_that_it_serves()

    def see_that_it_serves(self) -> None:
        """See that the number of this process, if it has one, is still its own.

        Raises:
            FencedError: it is not.

        """
        if self._number is not None and self._owners.get(self._number) is not self:
            raise FencedError(f"somebody else has taken the number {self._number}")

    def take_away(self) -> None:
        """Have the number of this process count as one whose process died, whatever it does."""
        if self._number is not None and self._owners.get(self._number) is self:
            self._owners[self._number] = None

    async def abandoned(self) -> list[int]:
        """Take the numbers of stores that were closed without leaving; one that is closed itself takes none."""
        if self._number is None:
            return []
        numbers = sorted(number for number, owner in self._owners.items() if owner is None)
        self._owners |= dict.fromkeys(numbers, self)
        return numbers

    async def hear(self, patience: float) -> None:
        """Let some time pass, after which it is worth a look: nobody speaks here."""
        await asyncio.sleep(min(patience, LOOK_AGAIN))

    async def leave(self, number: int) -> None:
        """Give a number back."""
        if self._owners.get(number) is self:
            del self._owners[number]
            if number == self._number:
                self._number = None

    def close(self) -> None:
        """Let go of all numbers, as if the process had died."""
        self._number = None
        for number, owner in self._owners.items():
            if owner is self:
                self._owners[number] = None
