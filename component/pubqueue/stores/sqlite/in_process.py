"""The instances on a store in this process: each number has its store, or None after that was closed without leaving."""

from __future__ import annotations

import asyncio
from itertools import count

from pubqueue.engine.ports import FencedError, Instance
from pubqueue.stores.sqlite.instances import LOOK_AGAIN

Owners = dict[int, "Instances | None"]
"""The owner of each number, for all stores on the same data."""


class Instances:
    """Implements `pubqueue.engine.ports.Instances` among stores with the same `owners`."""

    def __init__(self, owners: Owners) -> None:
        self._owners = owners
        self._number: int | None = None

    async def enter(self) -> Instance:
        """Take the first free number."""
        number = next(number for number in count() if self._owners.get(number) is None)
        died = number in self._owners
        self._owners[number] = self
        self._number = number
        return Instance(number, died)

    async def renew(self) -> None:
        """Check that the number of this store is still its own; other stores in this process cannot hang."""
        self.see_that_it_serves()

    def see_that_it_serves(self) -> None:
        """Check that the number of this store, if it has one, is still its own.

        Raises:
            FencedError: it is not.

        """
        if self._number is not None and self._owners.get(self._number) is not self:
            raise FencedError(f"somebody else has taken the number {self._number}")

    def take_away(self) -> None:
        """Let the number of this store count as one whose process died."""
        if self._number is not None and self._owners.get(self._number) is self:
            self._owners[self._number] = None

    async def abandoned(self) -> list[int]:
        """Take the numbers of stores that were closed without leaving; a closed store takes none.

        Raises:
            FencedError: the number of this store is not its own any more. It does not take it back.

        """
        if self._number is None:
            return []
        self.see_that_it_serves()
        numbers = sorted(number for number, owner in self._owners.items() if owner is None)
        self._owners |= dict.fromkeys(numbers, self)
        return numbers

    async def wait_for_change(self, patience: float) -> None:
        """Wait for some time, after which a look is worth while: there are no notifications here."""
        await asyncio.sleep(min(patience, LOOK_AGAIN))

    async def leave(self, number: int) -> None:
        """Free a number."""
        if self._owners.get(number) is self:
            del self._owners[number]
            if number == self._number:
                self._number = None

    def close(self) -> None:
        """Drop all numbers, as if the process had died."""
        self._number = None
        for number, owner in self._owners.items():
            if owner is self:
                self._owners[number] = None
