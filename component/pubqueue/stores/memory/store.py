"""Keeps a queue in memory, with all that a store promises but one thing: it ends with the process.

A batch runs from its beginning to its end without a break, so whoever reads sees all of it or nothing.
When a batch fails, the journal has what it changed, and that is undone.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from pubqueue.app.ports import Instance, StoreError
from pubqueue.stores.memory.contents import Contents
from pubqueue.stores.memory.transaction import MemoryTransaction

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.app.ports import Transaction

T = TypeVar("T")


class Alone:
    """Implements `pubqueue.app.ports.Instances`: there is one process, and with it ends what it has left undone."""

    async def enter(self) -> Instance:
        """Count this process."""
        return Instance(0)

    async def abandoned(self) -> list[int]:
        """Say that no other process has died."""
        return []

    async def leave(self, number: int) -> None:
        """Do nothing."""


class MemoryStore:
    """Implements `pubqueue.app.ports.Store` in the memory of one process. It does not survive the process.

    What was there when it was closed is there when the same store is opened again.
    """

    def __init__(self) -> None:
        self._contents = Contents()
        self._open = False
        self.instances = Alone()

    async def open(self) -> None:
        """Make ready. Opening twice does no harm."""
        self._open = True

    async def close(self) -> None:
        """Answer no more; closing twice does no harm."""
        self._open = False

    async def batch(self, job: Callable[[Transaction], T]) -> T:
        """Run the job in one transaction and return its result.

        Raises:
            StoreError: the store is closed.

        """
        await self._turn()
        journal = self._contents.journal
        try:
            result = job(MemoryTransaction(self._contents, writing=True))
        except BaseException:
            journal.undo()
            raise
        journal.keep()
        return result

    async def read(self, job: Callable[[Transaction], T]) -> T:
        """Run the job on what is committed by now.

        Raises:
            StoreError: the store is closed.

        """
        await self._turn()
        return job(MemoryTransaction(self._contents, writing=False))

    async def changes(self) -> bool:
        """Say that nobody else has changed the store: nobody else has it.

        Raises:
            StoreError: the store is closed.

        """
        self._must_be_open()
        return False

    async def _turn(self) -> None:
        """Let others have their turn first: whoever asks again and again must not keep them from it."""
        await asyncio.sleep(0)
        self._must_be_open()

    def _must_be_open(self) -> None:
        if not self._open:
            raise StoreError("the store is closed")
