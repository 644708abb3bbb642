"""`memory:`, a store without a file, and the instances on it."""

from __future__ import annotations

import asyncio
import atexit
import sqlite3
import threading
from functools import cache
from itertools import count
from typing import TYPE_CHECKING, Final, TypeVar
from weakref import finalize

from pubqueue.engine.ports import FencedError, Instance, StoreError
from pubqueue.stores.sql.session import NodeIds
from pubqueue.stores.sqlite.connection import translated
from pubqueue.stores.sqlite.instances import LOOK_AGAIN
from pubqueue.stores.sqlite.schema import guard, make_tables_of_its_own, migrate
from pubqueue.stores.sqlite.store import STATEMENTS, commit, look, roll_back

if TYPE_CHECKING:
    from collections.abc import Callable
    from urllib.parse import SplitResult

    from pubqueue.engine.ports import Transaction


# `memory:`: SQLite in the memory of this process, for tests, trials and the demo. Its data is lost with the process.
#
# There is one connection, on the loop's thread. A batch or a read runs without interruption, so they never overlap. There is
# no disk to wait for.

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


# The instances on a store in this process: each number has its store, or None after that was closed without leaving.

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
