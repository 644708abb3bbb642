"""The SQLite file: opening, migrating, and one transaction for each batch.

WAL with synchronous=FULL: a commit returns once it is on disk (NORMAL loses confirmed items when the
power fails). One connection writes, on aiosqlite's thread; a batch is one hop to that thread, because
a hop for each statement would cost more than the statement.
"""

from __future__ import annotations

import asyncio
import sqlite3
from importlib.resources import files
from typing import TYPE_CHECKING, Final, TypeVar

import aiosqlite

from pubqueue.app.ports import ForeignStoreError, StoreError
from pubqueue.stores.sqlite.queries import TXN
from pubqueue.stores.sqlite.transaction import SqliteTransaction

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pubqueue.app.ports import Transaction

T = TypeVar("T")

APPLICATION_ID: Final = 0x70756271
"""`pubq`, in the header of the file: a database of ours."""

LOCK_PATIENCE: Final = 5.0
"""Seconds to wait while another process holds the file's lock."""


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
        except sqlite3.Error as problem:
            await connection.leave()
            raise ForeignStoreError(f"{self._path}: {problem}") from problem
        except ForeignStoreError:
            await connection.leave()
            raise
        self._connection = connection

    async def close(self) -> None:
        """Close the file. Closing twice does no harm."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
            await connection.close()

    async def batch(self, job: Callable[[Transaction], T]) -> T:
        """Run the job in one transaction and return its result once it is on disk."""
        if self._connection is None:
            raise StoreError("the store is closed")
        return await self._connection.run(lambda connection: _transact(connection, job))

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, timeout=LOCK_PATIENCE, isolation_level=None)

    def _prepare(self, connection: sqlite3.Connection) -> None:
        _check_ours(connection, self._path)
        (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode != "wal":
            raise ForeignStoreError(f"{self._path}: SQLite cannot keep a write-ahead log here")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA temp_store = MEMORY")  # a savepoint's journal needs no file
        _migrate(connection, self._path)
        for query in ("make_winner", "make_met"):
            connection.execute(TXN[query])


def _transact(connection: sqlite3.Connection, job: Callable[[Transaction], T]) -> T:
    try:
        connection.execute("BEGIN IMMEDIATE")
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


def _roll_back(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        connection.execute("ROLLBACK")


def _check_ours(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a database that somebody else has made; an empty one becomes ours."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if tables and application != APPLICATION_ID:
        raise ForeignStoreError(f"{path}: this SQLite database belongs to another program")


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Run the migrations that this file has not seen, each in a transaction of its own."""
    (done,) = connection.execute("PRAGMA user_version").fetchone()
    steps = sorted(
        (entry.name, entry.read_text(encoding="utf-8"))
        for entry in files(__package__).joinpath("migrations").iterdir()
        if entry.name.endswith(".sql")
    )
    if done > len(steps):
        raise ForeignStoreError(
            f"{path}: its schema is number {done}, this program knows {len(steps)}; use a newer one"
        )
    for number, (_, script) in enumerate(steps, start=1):
        if number > done:
            connection.executescript(
                f"BEGIN IMMEDIATE; {script}\n"
                f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {number}; COMMIT;"
            )
