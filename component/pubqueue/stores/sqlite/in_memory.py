"""`memory:`: SQLite in the memory of this process, for tests, trials and the demo. Its data is lost with the process.

There is one connection, on the loop's thread. A batch or a read runs without interruption, so they never overlap. There is
no disk to wait for.
"""

from __future__ import annotations

import asyncio
import atexit
import sqlite3
import threading
from functools import cache
from typing import TYPE_CHECKING, Final, TypeVar
from weakref import finalize

from pubqueue.engine.ports import StoreError
from pubqueue.stores.sql.node_ids import NodeIds
from pubqueue.stores.sqlite.errors import translated
from pubqueue.stores.sqlite.in_process import Instances, Owners
from pubqueue.stores.sqlite.schema import guard, make_tables_of_its_own, migrate
from pubqueue.stores.sqlite.store import STATEMENTS
from pubqueue.stores.sqlite.transaction import commit, look, roll_back

if TYPE_CHECKING:
    from collections.abc import Callable
    from urllib.parse import SplitResult

    from pubqueue.engine.ports import Transaction

T = TypeVar("T")

PLACE: Final = ":memory:"

_copying: Final = threading.Lock()


def store_at(address: SplitResult) -> MemoryStore:
    """Return a new store, which is empty.

    Raises:
        ValueError: the address is more than `memory:`.

    """
    if address.path or address.netloc or address.query or address.fragment:
        raise ValueError(f"store must be memory: without more, not {address.geturl()!r}")
    return MemoryStore()


class Memory:
    """A database that lives as long as this object; several stores may share it, as several processes share a file."""

    def __init__(self) -> None:
        self.owners: Owners = {}
        self.commits = 0
        self.connection = _connected()
        finalize(self, self.connection.close)
        with _copying:
            _template().backup(self.connection)
        guard(self.connection)
        make_tables_of_its_own(self.connection)


class MemoryStore:
    """Implements `pubqueue.engine.ports.Store` in the memory of one process. It does not survive the process.

    The data is still there when the same store is closed and opened again.
    """

    def __init__(self, memory: Memory | None = None) -> None:
        self._memory = Memory() if memory is None else memory
        self._open = False
        self._names = NodeIds()
        self.instances = Instances(self._memory.owners)
        self._own = 0
        self._seen_by_batch = self._seen_by_changes = self._of_others

    async def open(self) -> None:
        """Open the store. Opening twice does no harm."""
        self._open = True

    async def close(self) -> None:
        """Close the store. Closing twice does no harm."""
        self._open = False
        self.instances.close()

    async def batch(self, job: Callable[[Transaction], T]) -> T:
        """Run the job in one transaction and return its result.

        Raises:
            FencedError: another process has the number of this one.
            StoreError: the store is closed, or an operation of the transaction has failed.

        """
        await self._turn()
        return self.transact(job)

    def transact(self, job: Callable[[Transaction], T]) -> T:
        """Run a batch at once; raises as `batch`."""
        self.instances.see_that_it_serves()
        connection = self._memory.connection
        written = connection.total_changes
        try:
            with translated():
                connection.execute("BEGIN")
                result = commit(connection, self._names, job, foreign=self._others_wrote())
        except BaseException:
            self._names.clear()
            roll_back(connection)
            raise
        if connection.total_changes != written:
            self._memory.commits += 1
            self._own += 1
        return result

    async def read(self, job: Callable[[Transaction], T]) -> T:
        """Run the job on the committed data.

        Raises:
            StoreError: the store is closed.

        """
        await self._turn()
        connection = self._memory.connection
        connection.execute("PRAGMA query_only = ON")
        try:
            return look(connection, job)
        finally:
            connection.execute("PRAGMA query_only = OFF")

    async def changes(self) -> bool:
        """Return whether another store in this memory has changed it since the last call.

        Raises:
            StoreError: the store is closed.

        """
        self._must_be_open()
        seen, self._seen_by_changes = self._seen_by_changes, self._of_others
        return seen != self._seen_by_changes

    def _others_wrote(self) -> bool:
        """Return whether another store has written since the last batch began."""
        seen, self._seen_by_batch = self._seen_by_batch, self._of_others
        if seen == self._seen_by_batch:
            return False
        self._names.clear()
        return True

    @property
    def _of_others(self) -> int:
        """How many commits were made by other stores in this memory."""
        return self._memory.commits - self._own

    async def _turn(self) -> None:
        """Let other tasks run first: a caller in a loop must not block them."""
        await asyncio.sleep(0)
        self._must_be_open()

    def _must_be_open(self) -> None:
        if not self._open:
            raise StoreError("the store is closed")


def _connected() -> sqlite3.Connection:
    return sqlite3.connect(
        PLACE,
        isolation_level=None,
        cached_statements=STATEMENTS,
        check_same_thread=False,  # a store may be used in another thread than it was made in, but never in two at once
    )


@cache
def _template() -> sqlite3.Connection:
    """Return an empty store to copy: running all migrations takes 20 times as long."""
    connection = _connected()
    atexit.register(connection.close)
    guard(connection)
    migrate(connection, PLACE)
    return connection
