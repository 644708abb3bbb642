"""Who serves from the same contents: each number has its store, or none since that was closed without leaving."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import TYPE_CHECKING

from pubqueue.app.ports import Instance

if TYPE_CHECKING:
    from pubqueue.stores.memory.contents import Contents


class Instances:
    """Implements `pubqueue.app.ports.Instances` beside the contents that several stores have."""

    def __init__(self, contents: Contents) -> None:
        self._owners = contents.instances

    async def enter(self) -> Instance:
        """Take the first number that nobody has."""
        number = next(number for number in count() if self._owners.get(number) is None)
        died = number in self._owners
        self._owners[number] = self
        return Instance(number, died)

    async def abandoned(self) -> list[int]:
        """Take the numbers of stores that were closed without leaving."""
        numbers = sorted(number for number, owner in self._owners.items() if owner is None)
        self._owners |= dict.fromkeys(numbers, self)
        return numbers

    async def hear(self, patience: float) -> None:
        """Let the time pass: nobody speaks here."""
        await asyncio.sleep(patience)

    async def leave(self, number: int) -> None:
        """Give a number back."""
        if self._owners.get(number) is self:
            del self._owners[number]

    def close(self) -> None:
        """Let go of all numbers, as if the process had died."""
        for number, owner in self._owners.items():
            if owner is self:
                self._owners[number] = None
