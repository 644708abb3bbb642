"""The SQLite file: opening, migrating, and one transaction for each batch.

WAL with synchronous=FULL: a commit returns once it is on disk (NORMAL loses confirmed items when the
power fails). One connection writes, on aiosqlite's thread; a batch is one hop to that thread, because
a hop for each statement would cost more than the statement.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from importlib.resources import files
from typing import TYPE_CHECKING, Final, TypeVar

import aiosqlite

from pubqueue.app.ports import ForeignStoreError, StoreError
from pubqueue.stores.sqlite.queries import TXN
from pubqueue.stores.sqlite.transaction import SqliteTransaction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pubqueue.app.ports import Transaction

T = TypeVar("T")

APPLICATION_ID: Final = 0x70756271
"""`pubq`, in the header of the file: a database of ours."""

PAGE_CACHE: Final = 65_536
"""KiB of pages to keep in memory at most. With SQLite's own 2 MiB a large commit reads and writes pages again
and again: 22 us an item instead of 8, where ids come in no order."""

LOCK_PATIENCE: Final = 5.0
"""Seconds to wait while another process holds the file's lock."""

LOCK_GLANCE: Final = 20
"""Milliseconds of one try to get it: left to itself, SQLite looks only every tenth of a second."""


class _Connection(aiosqlite.Connection):
    """aiosqlite's connection with one more verb: run a whole job on its thread."""

    async def run(self, job: Callable[[sqlite3.Connection], T]) -> T:
        result: T = await self._execute(job, self._conn)  # type: ignore[no-untyped-call]  # untyped there
        return result

    async def leave(self) -> None:
        """Close, and see the thread end: after a failed connect it has a last word for the loop."""
        await self.close()
        await asyncio.to_thread(self._thread.join)


class SqliteStore:
    """Implements `pubqueue.app.ports.Store` in one file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: _Connection | None = None
        self._version = 0
        self._reader: _Connection | None = None
        self._opening = asyncio.Lock()

    async def open(self) -> None:
        """Open the file, or make it, and bring it to the newest schema.

        Raises:
            ForeignStoreError: the file is not ours, is newer than this program, or is unusable.

        """
        if self._connection is not None:
            return
        connection = _Connection(self._connect, iter_chunk_size=64)
        try:
            await connection
            await connection.run(self._prepare)
            self._version = await connection.run(_version)
        except sqlite3.Error as problem:
            await connection.leave()
            raise ForeignStoreError(f"{self._path}: {problem}") from problem
        except ForeignStoreError:
            await connection.leave()
            raise
        self._connection = connection

    async def close(self) -> None:
        """Close the file. Closing twice does no harm."""
        async with self._opening:
            if self._reader is not None:
                reader, self._reader = self._reader, None
                await reader.close()
            if self._connection is not None:
                connection, self._connection = self._connection, None
                await connection.close()

    async def batch(self, job: Callable[[Transaction], T]) -> T:
        """Run the job in one transaction and return its result once it is on disk."""
        if self._connection is None:
            raise StoreError("the store is closed")
        return await self._connection.run(lambda connection: _transact(connection, job))

    async def others_wrote(self) -> bool:
        """Say whether another process has changed the file since the last call."""
        if self._connection is None:
            raise StoreError("the store is closed")
        seen, self._version = self._version, await self._connection.run(_version)
        return seen != self._version

    async def read(self, job: Callable[[Transaction], T]) -> T:
        """Run the job on what is committed by now, on a connection that only reads."""
        async with self._opening:
            if self._connection is None:
                raise StoreError("the store is closed")
            if self._reader is None:
                self._reader = await self._open_reader()
        return await self._reader.run(lambda connection: _look(connection, job))

    async def _open_reader(self) -> _Connection:
        """Open the connection for reading, when it is first needed."""
        reader = _Connection(self._connect, iter_chunk_size=64)
        try:
            await reader
            await reader.run(lambda connection: connection.execute("PRAGMA query_only = ON"))
        except sqlite3.Error as problem:
            await reader.leave()
            raise StoreError(str(problem)) from problem
        return reader

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, timeout=LOCK_PATIENCE, isolation_level=None)

    def _prepare(self, connection: sqlite3.Connection) -> None:
        _check_ours(connection, self._path)
        (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode != "wal":
            raise ForeignStoreError(f"{self._path}: SQLite cannot keep a write-ahead log here")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute(f"PRAGMA cache_size = {-PAGE_CACHE}")
        connection.execute("PRAGMA temp_store = MEMORY")  # a savepoint's journal needs no file
        _migrate(connection, self._path)
        for query in ("make_winner", "make_met"):
            connection.execute(TXN[query])
        connection.execute(f"PRAGMA busy_timeout = {LOCK_GLANCE}")


def _version(connection: sqlite3.Connection) -> int:
    """Return a number that changes when another connection commits, and never by our own commits."""
    try:
        (version,) = connection.execute("PRAGMA data_version").fetchone()
    except sqlite3.Error as problem:
        raise StoreError(str(problem)) from problem
    return int(version)


def _transact(connection: sqlite3.Connection, job: Callable[[Transaction], T]) -> T:
    try:
        _begin(connection)
        transaction = SqliteTransaction(connection)
        result = job(transaction)
        transaction.finish()
        connection.execute("COMMIT")
    except sqlite3.Error as problem:
        _roll_back(connection)
        raise StoreError(str(problem)) from problem
    except BaseException:
        _roll_back(connection)
        raise
    return result


def _begin(connection: sqlite3.Connection) -> None:
    """Begin to write; while another process writes, look often, or a busy one would never let us in."""
    patient_until = time.monotonic() + LOCK_PATIENCE
    while True:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as problem:
            busy = problem.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
            if not busy or time.monotonic() > patient_until:
                raise
        else:
            return


def _look(connection: sqlite3.Connection, job: Callable[[Transaction], T]) -> T:
    """Run a job on one snapshot; in WAL mode it neither waits for the writer nor makes it wait."""
    try:
        connection.execute("BEGIN")
        return job(SqliteTransaction(connection))
    except sqlite3.Error as problem:
        raise StoreError(str(problem)) from problem
    finally:
        _roll_back(connection)


def _roll_back(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        connection.execute("ROLLBACK")


def _check_ours(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a database that somebody else has made; an empty one becomes ours."""
    connection.execute("BEGIN")  # one moment for both: another process may be making it
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    connection.execute("COMMIT")
    if tables and application != APPLICATION_ID:
        raise ForeignStoreError(f"{path}: this SQLite database belongs to another program")


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Run the migrations that this file has not seen, in one transaction; a second process waits for it."""
    steps = sorted(
        (entry.name, entry.read_text(encoding="utf-8"))
        for entry in files(__package__).joinpath("migrations").iterdir()
        if entry.name.endswith(".sql")
    )
    if _schema(connection) == len(steps):
        return
    connection.execute("BEGIN IMMEDIATE")
    done = _schema(connection)
    if done > len(steps):
        raise ForeignStoreError(
            f"{path}: its schema is number {done}, this program knows {len(steps)}; use a newer one"
        )
    for _, script in steps[done:]:
        for statement in _statements(script):
            connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {len(steps)}")
    connection.execute("COMMIT")


def _schema(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _statements(script: str) -> Iterator[str]:
    """Cut a script apart: sqlite3's own way to run one would end the transaction first."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
