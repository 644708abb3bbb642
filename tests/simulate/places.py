"""Where the instances of a run have their store in common: in a SQLite file, or in PostgreSQL.

The file is in the machine's memory, where there is room for files. SQLite works on the calling thread here, where a thread of
its own would bring chance in. Nobody loses power, so nothing is synced. An instance that dies lets go of its connection
and no more.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Protocol, TypeVar

from pubqueue.app.ports import Store
from pubqueue.stores.sqlite import SqliteStore
from pubqueue.stores.sqlite.in_process import Instances, Owners
from pubqueue.stores.sqlite.schema import prepare
from simulate.postgres_place import PostgresPlace

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from pubqueue.app.ports import Transaction

T = TypeVar("T")

MOST_PAGES = 1 << 30
"""Pages of a file whose disk has room."""


RAM = Path("/dev/shm")  # a folder of our own is made there
"""Where a file is in memory alone."""


class PlacedStore(Store, Protocol):
    """A store whose process can die."""

    instances: Instances

    def fill(self, *, full: bool) -> None:
        """Let there be no room on the disk, or let there be room again."""


class Place(Protocol):
    """The one place of all stores of a run."""

    def store(self) -> PlacedStore:
        """Return a store at this place, not opened yet."""

    def look(self, job: Callable[[Transaction], T]) -> T:
        """Look at what is committed, unseen by all stores."""

    def close(self) -> None:
        """Let go of it."""


class SqlitePlace:
    """A file in a folder of its own."""

    def __init__(self) -> None:
        self._folder = TemporaryDirectory(prefix="pubqueue-simulate-", dir=in_ram())
        self._path = Path(self._folder.name) / "queue.db"
        self._served_by: Owners = {}
        self._looking = InlineSqlite(self._path, self._served_by)
        self._looking.begin()

    def store(self) -> PlacedStore:
        return InlineSqlite(self._path, self._served_by)

    def look(self, job: Callable[[Transaction], T]) -> T:
        return self._looking.transact(job)

    def close(self) -> None:
        self._looking.end()
        self._folder.cleanup()


def in_ram() -> Path | None:
    """Return where files cost no disk, None if this machine has no such place: then they are with other temporary ones."""
    return RAM if RAM.is_dir() and os.access(RAM, os.W_OK) else None


class InlineSqlite:
    """The store in a SQLite file, without threads: a batch is over when it is asked for.

    Who serves from it is known as in `memory:`: the system's locks are those of the one process that plays all.
    """

    def __init__(self, path: Path, served_by: Owners) -> None:
        self._path = path
        self.instances = Instances(served_by)
        self._store, self._beside = SqliteStore(path), SqliteStore(path)
        self._connections: list[sqlite3.Connection] = []
        self._seen = 0

    def begin(self) -> None:
        """Open the file: one connection for batches, one for those who read beside them."""
        for _ in range(2):
            connection = self._store._connect()
            connection.execute("PRAGMA synchronous = OFF")
            prepare(connection, self._path)
            connection.execute("PRAGMA synchronous = OFF")
            self._connections.append(connection)
        self._seen = self._version()

    def end(self) -> None:
        """Close the file."""
        while self._connections:
            self._connections.pop().close()

    def fill(self, *, full: bool) -> None:
        """Let the file grow no more: what then fails, and where in a batch, is up to SQLite."""
        connection = self._connections[0]
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages if full else MOST_PAGES}").fetchone()

    def transact(self, job: Callable[[Transaction], T]) -> T:
        """Run a batch, now."""
        return self._store._transact(self._connections[0], job)

    async def open(self) -> None:
        self.begin()

    async def close(self) -> None:
        self.end()

    async def batch(self, job: Callable[[Transaction], T]) -> T:
        await asyncio.sleep(0)
        self.instances.see_that_it_serves()
        return self.transact(job)

    async def read(self, job: Callable[[Transaction], T]) -> T:
        await asyncio.sleep(0)
        return self._beside._transact(self._connections[1], job)

    async def changes(self) -> bool:
        await asyncio.sleep(0)
        seen, self._seen = self._seen, self._version()
        return seen != self._seen

    def _version(self) -> int:
        (version,) = self._connections[0].execute("PRAGMA data_version").fetchone()
        return int(version)


PLACES: dict[str, Callable[[], Place]] = {
    "sqlite": SqlitePlace,
    "postgres": PostgresPlace,
}
