"""Where the instances of a run have their store in common: in a SQLite file, or in PostgreSQL.

The file is in the machine's memory, where there is room for files. SQLite works on the calling thread here, where a thread of
its own would bring chance in. Nobody loses power, so nothing is synced. An instance that dies lets go of its connection
and no more.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Protocol, TypeVar

from proof.simulate.postgres_place import PostgresPlace
from proof.simulate.ticks import true_time
from pubqueue.engine.ports import Store
from pubqueue.stores.copying import copy
from pubqueue.stores.postgres.connection import ServerClock
from pubqueue.stores.sqlite import SqliteStore
from pubqueue.stores.sqlite.in_memory import Instances, Owners
from pubqueue.stores.sqlite.schema import prepare

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from pubqueue.engine.ports import Instance, Transaction
    from pubqueue.model.entities import Millis
    from pubqueue.stores.sqlite.instances import Instances as RealInstances

T = TypeVar("T")

MAX_PAGES = 1 << 30
"""Pages of a file whose disk has room."""


RAM = Path("/dev/shm")  # a folder of our own is made there
"""Where a file is in memory alone."""


class PlacedStore(Store, Protocol):
    """A store whose process can die."""

    instances: Instances

    def clock(self, machine: Callable[[], Millis]) -> Callable[[], Millis]:
        """Return the clock by which deadlines are set and judged, made of the one of a machine."""

    def fill(self, *, full: bool) -> None:
        """Let there be no room on the disk, or let there be room again."""


class Place(Protocol):
    """The one place of all stores of a run.

    Where it `has_clock`, machines may have wrong ones; elsewhere all instances share one machine.
    """

    has_clock: bool

    def store(self) -> PlacedStore:
        """Return a store at this place, not opened yet."""

    def look(self, job: Callable[[Transaction], T]) -> T:
        """Look at what is committed, unseen by all stores."""

    def elsewhere(self) -> Elsewhere | None:
        """Return another place, to which what is kept here can be copied; None if nothing can."""

    def close(self) -> None:
        """Let go of it."""


class Elsewhere(Protocol):
    """A place of a copy, which nobody has served from yet."""

    def store(self) -> PlacedStore:
        """Return a store at this place, not opened yet."""

    def copy(self, part: float = 1.0) -> None:
        """Copy what is kept, or only a part of it, for then the copy is killed.

        Raises:
            StoreError: it cannot be copied.

        """

    def move(self) -> None:
        """Have all that are started from now on serve from here."""


class SqlitePlace:
    """A file in a folder of its own."""

    has_clock = False

    @property
    def kind(self) -> type[InlineSqlite]:
        """The store of its processes."""
        return InlineSqlite

    def __init__(self) -> None:
        self._folder = TemporaryDirectory(prefix="pubqueue-simulate-", dir=in_ram())
        self._number = 0
        self._served_by: Owners = {}
        self._stores: list[InlineSqlite] = []
        self._path = self._file(0)
        self._looking = self.store_at(self._path)
        self._looking.begin()

    def store_at(self, path: Path) -> InlineSqlite:
        """Return a store of a file, not opened yet."""
        self._stores.append(made := self.kind(path, self._served_by))
        return made

    def store(self) -> PlacedStore:
        return self.store_at(self._path)

    def elsewhere(self) -> CopyOfSqlite:
        self._number += 1
        return CopyOfSqlite(self, self._path, self._file(self._number))

    def move(self, path: Path) -> None:
        """Look at this file, and have all serve from it that are started from now on."""
        self._looking.end()
        self._path, self._looking = path, self.store_at(path)
        self._looking.begin()

    def _file(self, number: int) -> Path:
        """Return the file of a place: the first one, or that of a copy."""
        return Path(self._folder.name) / f"queue{number}.db"

    def look(self, job: Callable[[Transaction], T]) -> T:
        return self._looking.transact(job)

    def close(self) -> None:
        """Remove all, and close what processes that have died left open."""
        for store in self._stores:
            store.end()
        self._folder.cleanup()


class ClockedPlace(SqlitePlace):
    """A file that stands for a server: it tells the time, so instances may be on machines with other clocks."""

    has_clock = True

    @property
    def kind(self) -> type[InlineSqlite]:
        return ClockedSqlite


class CopyOfSqlite:
    """Another file, into which the first one is copied as `pubqueue migrate` does it."""

    def __init__(self, place: SqlitePlace, source: Path, target: Path) -> None:
        self._place, self._source, self._target = place, source, target

    def store(self) -> PlacedStore:
        return self._place.store_at(self._target)

    def copy(self, part: float = 1.0) -> None:
        with suppress(KilledError):
            copy(f"sqlite://{self._source}", f"sqlite://{self._target}", UntilKilled(part))

    def move(self) -> None:
        self._place.move(self._target)


class KilledError(Exception):
    """A copy has been killed."""


class UntilKilled:
    """Watches a copy, and kills it when it has brought a part of the rows."""

    def __init__(self, part: float) -> None:
        self._part, self._left = part, 0.0

    def begin(self, rows: int) -> None:
        self._left = rows / 2 * self._part

    def step(self, _what: str, rows: int) -> None:
        self._left -= rows
        if self._part < 1 and self._left <= 0:
            raise KilledError


class SqliteInstances(Instances):
    """Numbers as in `memory:`, but that whoever enters looks at the file as a process does."""

    def __init__(self, owners: Owners, real: RealInstances) -> None:
        super().__init__(owners)
        self._real = real

    async def enter(self) -> Instance:
        """Take the first number that nobody has; raises what the store's own raises."""
        await self._real.leave(self._real.enter_now().number)
        return await super().enter()


def in_ram() -> Path | None:
    """Return where files cost no disk, None if this machine has no such place: then they are with other temporary ones."""
    return RAM if RAM.is_dir() and os.access(RAM, os.W_OK) else None


class InlineSqlite:
    """The store in a SQLite file, without threads: a batch is over when it is asked for.

    Who serves from it is known as in `memory:`: the system's locks are those of the one process that plays all.
    """

    def __init__(self, path: Path, served_by: Owners) -> None:
        self._path = path
        self._store, self._beside = SqliteStore(path), SqliteStore(path)
        self.instances = SqliteInstances(served_by, self._store.instances)
        self._connections: list[sqlite3.Connection] = []
        self._seen = 0

    def begin(self) -> None:
        """Open the file: one connection for batches, one for those who read beside them."""
        self._path.touch()
        self._store.file.note()
        for _ in range(2):
            self._connections.append(connection := self._store.connect())
            connection.execute("PRAGMA synchronous = OFF")
            prepare(connection, self._path)
            connection.execute("PRAGMA synchronous = OFF")
        self._seen = self._version()

    def end(self) -> None:
        """Close the file."""
        while self._connections:
            self._connections.pop().close()

    def fill(self, *, full: bool) -> None:
        """Let the file grow no more: what then fails, and where in a batch, is up to SQLite."""
        connection = self._connections[0]
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages if full else MAX_PAGES}").fetchone()

    def transact(self, job: Callable[[Transaction], T]) -> T:
        """Run a batch, now."""
        return self._store.transact(self._connections[0], job)

    def clock(self, machine: Callable[[], Millis]) -> Callable[[], Millis]:
        return machine

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
        return self._beside.transact(self._connections[1], job)

    async def changes(self) -> bool:
        await asyncio.sleep(0)
        seen, self._seen = self._seen, self._version()
        return seen != self._seen

    def _version(self) -> int:
        (version,) = self._connections[0].execute("PRAGMA data_version").fetchone()
        return int(version)


class ClockedSqlite(InlineSqlite):
    """A store that tells the time with each answer, as PostgreSQL does."""

    def __init__(self, path: Path, served_by: Owners) -> None:
        super().__init__(path, served_by)
        self._clock = ServerClock()

    def clock(self, machine: Callable[[], Millis]) -> Callable[[], Millis]:
        return self._clock.beside(machine)

    async def open(self) -> None:
        self._clock.note_time(true_time())
        await super().open()

    async def batch(self, job: Callable[[Transaction], T]) -> T:
        self._clock.note_time(true_time())
        return await super().batch(job)

    async def changes(self) -> bool:
        self._clock.note_time(true_time())
        return await super().changes()


PLACES: dict[str, Callable[[], Place]] = {
    "sqlite": SqlitePlace,
    "clocked": ClockedPlace,
    "postgres": PostgresPlace,
}
