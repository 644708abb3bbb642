"""Keeps a queue in memory, with all that a store promises but one thing: it ends with the process.

A batch runs from its beginning to its end without a break, so whoever reads sees all of it or nothing.
When a batch fails, the journal has what it changed, and that is undone.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from pubqueue.app.ports import StoreError
from pubqueue.stores.guarded import Guarded
from pubqueue.stores.memory.contents import Contents
from pubqueue.stores.memory.instances import Instances
from pubqueue.stores.memory.transaction import MemoryTransaction

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.app.ports import Transaction

T = TypeVar("T")


class MemoryStore:
    """Implements `pubqueue.app.ports.Store` in the memory of one process. It does not survive the process.

    What was there when it was closed is there when the same store is opened again. Several may be given the
    same contents, as several processes have one file.
    """

    def __init__(self, contents: Contents | None = None) -> None:
        self._contents = Contents() if contents is None else contents
        self._open = False
        self.instances = Instances(self._contents)
        self._own = 0
        self._seen_by_batch = self._seen_by_changes = self._of_others

    async def open(self) -> None:
        """Make ready. Opening twice does no harm."""
        self._open = True

    async def close(self) -> None:
        """Answer no more; closing twice does no harm."""
        self._open = False
        self.instances.close()

    async def batch(self, job: Callable[[Transaction], T]) -> T:
        """Run the job in one transaction and return its result.

        Raises:
            FencedError: the number of this process is another's.
            StoreError: the store is closed, or an operation of the transaction has failed.

        """
        await self._turn()
        self.instances.see_that_it_serves()
        journal = self._contents.journal
        seen, self._seen_by_batch = self._seen_by_batch, self._of_others
        foreign = seen != self._seen_by_batch
        try:
            transaction = Guarded(MemoryTransaction(self._contents, writing=True, foreign=foreign))
            result = job(transaction)
            transaction.check()
        except BaseException:
            journal.undo()
            raise
        if journal.mark():
            self._contents.commits += 1
            self._own += 1
        journal.keep()
        return result

    async def read(self, job: Callable[[Transaction], T]) -> T:
        """Run the job on what is committed by now.

        Raises:
            StoreError: the store is closed.

        """
        await self._turn()
        transaction = Guarded(MemoryTransaction(self._contents, writing=False, foreign=True))
        result = job(transaction)
        transaction.check()
        return result

    async def changes(self) -> bool:
        """Say whether another store on these contents has changed them since the last call.

        Raises:
            StoreError: the store is closed.

        """
        self._must_be_open()
        seen, self._seen_by_changes = self._seen_by_changes, self._of_others
        return seen != self._seen_by_changes

    @property
    def _of_others(self) -> int:
        """How many commits were made by other stores on these contents."""
        return self._contents.commits - self._own

    async def _turn(self) -> None:
        """Let others have their turn first: whoever asks again and again must not keep them from it."""
        await asyncio.sleep(0)
        self._must_be_open()

    def _must_be_open(self) -> None:
        if not self._open:
            raise StoreError("the store is closed")
