"""The store in a SQLite file, and its transactions."""

from __future__ import annotations

import asyncio
import ctypes
import sqlite3
import time
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import aiosqlite

from pubqueue.engine.ports import StaleError, StoreError
from pubqueue.stores.sql import session
from pubqueue.stores.sql.session import NodeIds
from pubqueue.stores.sql.transaction import SqlTransaction
from pubqueue.stores.sqlite.connection import (
    DAMAGE,
    LOCK_TIMEOUT,
    NO_TEXT,
    OpenedFile,
    close_to_others,
    create,
    not_opened,
    run_patiently,
    translated,
    words,
)
from pubqueue.stores.sqlite.instances import Instances, alone
from pubqueue.stores.sqlite.schema import SQL, prepare

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from pubqueue.engine.ports import Transaction
    from pubqueue.stores.sql.session import Values


# The store in a SQLite file: one transaction for each batch, on the thread where it costs least.
#
# WAL with synchronous=FULL: a commit returns when it is on disk (NORMAL loses confirmed items when the power fails). One
# connection writes. A hop to aiosqlite's thread costs about 40 us, as much as several items. So quick batches run on the
# loop's thread. If the disk is slow, a batch is large or another process holds the lock, the loop must not wait, and the
# batch runs on aiosqlite's thread.

T = TypeVar("T")

QUICK: Final = 0.001
"""Seconds that a batch may take on the loop's thread."""

STATEMENTS: Final = 256
"""Prepared statements to keep: more than there are."""


class _Connection(aiosqlite.Connection):
    """aiosqlite's connection, which can also run a whole job on its thread."""

    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        super().__init__(connect, iter_chunk_size=64)
        self._asked = 0
        self._done = 0

    @property
    def idle(self) -> bool:
        """Whether the thread has nothing to do; it may still work for a caller that was cancelled."""
        return self._asked == self._done

    @property
    def raw(self) -> sqlite3.Connection:
        """The connection itself, for use while the thread is idle."""
        return self._conn

    async def run(self, job: Callable[[sqlite3.Connection], T]) -> T:
        self._asked += 1
        result: T = await self._execute(self._do, job)  # type: ignore[no-untyped-call]  # untyped there
        return result

    def _do(self, job: Callable[[sqlite3.Connection], T]) -> T:
        try:
            return job(self._conn)
        finally:
            self._done += 1

    async def leave(self) -> None:
        """Close, and wait until the thread ends: after a failed connect it still calls back into the loop."""
        await self.close()
        await asyncio.to_thread(self._thread.join)


class SqliteStore:
    """Implements `pubqueue.engine.ports.Store` in one file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.connection: _Connection | None = None
        self.reader: _Connection | None = None
        self._opening = asyncio.Lock()
        self._writing = asyncio.Lock()
        self._names = NodeIds()
        self.file = OpenedFile(path)
        self.instances: Instances = Instances(path, self.file, self._excluding)
        self._changes_seen = 0
        self._batch_seen: int | None = None
        self._pace = QUICK

    async def open(self) -> None:
        """Open the file, or make it, and migrate it to the newest schema.

        Raises:
            ForeignStoreError: the file is not ours, is newer than this program, or is unusable.
            UnreachableStoreError: it is of an older schema, and a process serves from it; or the disk is full.

        """
        if self.connection is not None:
            return
        create(self.path)
        self.file.note()
        connection = _Connection(self.connect)
        try:
            await connection
            alone_here = partial(alone, self.path, patience=LOCK_TIMEOUT)
            await connection.run(lambda raw: prepare(raw, self.path, alone=alone_here))
            close_to_others(self.path)
            self.file.note_log()
            self._changes_seen = await connection.run(_version)
        except DAMAGE as problem:
            await connection.leave()
            raise not_opened(self.path, problem) from problem
        except BaseException:
            await connection.leave()
            raise
        self._batch_seen = None
        self.connection = connection

    async def close(self) -> None:
        """Close the file. Closing twice does no harm.

        Raises:
            StoreError: SQLite failed to close it; everything is released nevertheless.

        """
        async with self._opening:
            connections = self.reader, self.connection
            self.reader = self.connection = None
            self.instances.close()
            async with (
                AsyncExitStack() as ends
            ):  # one that cannot be closed does not prevent the others from being closed
                ends.callback(self.file.forget)
                for connection in connections:
                    if connection is not None:
                        ends.push_async_callback(_close, connection)

    async def batch(self, job: Callable[[Transaction], T]) -> T:
        """Run the job in one transaction and return its result once it is on disk."""
        async with self._writing:
            connection = self._opened()
            if self._pace < QUICK and connection.idle and _begun_at_once(connection.raw):
                return self._timed(connection.raw, job, begun=True)
            return await connection.run(lambda raw: self._timed(raw, job))

    async def _excluding(self, job: Callable[[], bool]) -> bool:
        """Run a job while no other process writes."""
        return await self.batch(lambda _tx: job())

    async def changes(self) -> bool:
        """Return whether another process has changed the file since the last call."""
        self.file.check()
        async with self._writing:
            with translated():
                version = await self._opened().run(_version)
        seen, self._changes_seen = self._changes_seen, version
        return seen != version

    async def read(self, job: Callable[[Transaction], T]) -> T:
        """Run the job on the committed data, on a connection that only reads."""
        async with self._opening:
            self._opened()
            if self.reader is None:
                self.reader = await self._open_reader()
        return await self.reader.run(lambda connection: look(connection, job))

    def _opened(self) -> _Connection:
        if self.connection is None:
            raise StoreError("the store is closed")
        return self.connection

    async def _open_reader(self) -> _Connection:
        """Return the connection for reading, which is opened when it is first needed."""
        self.file.check()
        reader = _Connection(self.connect)
        try:
            await reader
            await reader.run(lambda connection: connection.execute("PRAGMA query_only = ON"))
            self.file.check()
        except sqlite3.Error as problem:
            await reader.leave()
            raise StoreError(str(problem)) from problem
        except StoreError:
            await reader.leave()
            raise
        return reader

    def connect(self) -> sqlite3.Connection:
        """Return a connection to the file, for use by one thread at a time."""
        create(self.path)
        return sqlite3.connect(
            self.path,
            timeout=LOCK_TIMEOUT,
            isolation_level=None,
            cached_statements=STATEMENTS,
            check_same_thread=False,  # two threads, but never both at once
        )

    def _timed(
        self,
        connection: sqlite3.Connection,
        job: Callable[[Transaction], T],
        *,
        begun: bool = False,
    ) -> T:
        """Run a batch, and note how long recent batches took."""
        began = time.perf_counter()
        try:
            return self.transact(connection, job, begun=begun)
        finally:
            self._pace += (time.perf_counter() - began - self._pace) / 8

    def transact(
        self,
        connection: sqlite3.Connection,
        job: Callable[[Transaction], T],
        *,
        begun: bool = False,
    ) -> T:
        """Run a batch on a connection, on the thread of the caller; `begun`: its transaction is already open."""
        try:
            with translated():
                if not begun:
                    roll_back(
                        connection
                    )  # a transaction that could not be undone before is not continued
                    run_patiently(connection, "BEGIN IMMEDIATE")
                self.file.check()
                self.instances.see_that_it_serves()
                foreign = self._others_wrote(connection)
                return commit(connection, self._names, job, foreign=foreign)
        except BaseException:
            self._roll_back(connection)
            raise

    def _others_wrote(self, connection: sqlite3.Connection) -> bool:
        """Return whether another process has written since the last batch began."""
        version = _version(connection)
        seen, self._batch_seen = self._batch_seen, version
        if seen == version:
            return False
        self._names.clear()
        return True

    def _roll_back(self, connection: sqlite3.Connection) -> None:
        """Roll back; if even that fails, the next batch does it before it begins."""
        self._names.clear()
        with suppress(sqlite3.Error):
            roll_back(connection)


async def _close(connection: _Connection) -> None:
    with translated():
        await connection.close()


def _version(connection: sqlite3.Connection) -> int:
    """Return a number that changes when another connection commits, and never by our own commits."""
    (version,) = connection.execute("PRAGMA data_version").fetchone()
    return int(version)


def _begun_at_once(connection: sqlite3.Connection) -> bool:
    """Begin to write if no other process does; return whether that succeeded."""
    try:
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError:
        return False  # whatever it is: the thread will meet it too, and may wait
    return True


# An open transaction of SQLite: statements by name.

PAYLOAD_AT: Final = {
    "payloads": 1,
    "ready": -1,
    "ready_of_size": -1,
    "ready_alone": -1,
    "ready_items": -1,
}
"""The statements of batches that read payloads, and the column that has them."""

ADD_LARGE, DROP_LARGE = "add_large", "drop_large"
"""The statements that write and drop payloads that are apart from their rows."""

PIECE: Final = 1 << 20
"""Bytes of a payload that are written at once."""

MOST_CACHED: Final = 4 << 20
"""Bytes of large payloads after which a batch gives the pages that SQLite keeps in memory back to the system: they have displaced the others anyway."""


class SqliteSession(session.SqlSession):
    """Runs statements by name, each at once."""

    most_in_row = session.MOST_IN_ROW

    def __init__(self, connection: sqlite3.Connection, names: NodeIds) -> None:
        super().__init__(names)
        self.connection = connection
        self.large = 0
        """Bytes of large payloads that were read, written or dropped: their pages are in SQLite's cache."""

    def check(self) -> None:
        """Check that the transaction is still open.

        Raises:
            StoreError: SQLite has ended it by itself, for example for a full disk; each further statement would
                commit on its own.

        """
        if not self.connection.in_transaction:
            raise StoreError("the transaction is lost")

    def rows(self, query: str, *values: object) -> list[Any]:
        """Return all rows of a statement; where a text is damaged, with a sign in its place, so that its checksum shows it."""
        try:
            found = self.connection.execute(SQL[query], values).fetchall()
        except sqlite3.OperationalError as problem:
            if not str(problem).startswith(NO_TEXT):
                raise
            found = self._tolerant(query, values, _replaced)
        if (at := PAYLOAD_AT.get(query)) is not None:
            self._note_large(len(row[at]) for row in found)
        return found

    ask = rows

    def _note_large(self, sizes: Iterable[int]) -> None:
        self.large += sum(size for size in sizes if size > self.most_in_row)

    def _tolerant(
        self, query: str, values: Sequence[object], read: Callable[[bytes], object]
    ) -> list[Any]:
        text, self.connection.text_factory = self.connection.text_factory, read
        try:
            return self.connection.execute(SQL[query], values).fetchall()
        finally:
            self.connection.text_factory = text

    def rows_as_found(self, query: str, *values: object) -> list[Any]:
        """Return all rows of a statement; a text that is not UTF-8 is returned as bytes, because SQLite keeps any bytes."""
        return self._tolerant(query, values, _text_or_bytes)

    def row(self, query: str, *values: object) -> Any:  # noqa: ANN401  # a row of that query
        """Return the first row, None if there is none."""
        return self.connection.execute(SQL[query], values).fetchone()

    def stream(self, query: str, room: int, *values: object) -> Iterator[Any]:  # noqa: ARG002  # the reader stops
        """Yield rows one by one, so that no payload is read needlessly."""
        cursor = self.connection.execute(SQL[query], values)
        count, at = 0, PAYLOAD_AT.get(query)
        try:
            for row in cursor:
                if at is not None and len(row[at]) > self.most_in_row:
                    self.large += len(row[at])
                yield row
                count += 1
        except sqlite3.OperationalError as problem:
            if not str(problem).startswith(NO_TEXT):
                raise
            yield from self._tolerant(query, values, _replaced)[count:]
        finally:
            cursor.close()

    def run(self, query: str, *values: object) -> None:
        """Run a statement, however many rows it changes."""
        self.connection.execute(SQL[query], values)
        if query == DROP_LARGE:
            self.large += MOST_CACHED

    def must(self, query: str, count: int, *values: object) -> None:
        """Run a statement that has to change `count` rows."""
        if self.connection.execute(SQL[query], values).rowcount != count:
            raise StaleError(query)

    def many(self, query: str, values: Sequence[Values]) -> None:
        """Run a statement for each of these values, however many rows that changes."""
        if query == ADD_LARGE:
            self._add_large(cast("Sequence[tuple[int, bytes]]", values))
        elif values:
            self.connection.executemany(SQL[query], values)

    def _add_large(self, values: Sequence[tuple[int, bytes]]) -> None:
        """Write payloads in pieces: SQLite would copy one twice that is given as a value."""
        for seq, payload in values:
            if self.connection.execute(SQL[ADD_LARGE], (seq, len(payload))).rowcount:
                with self.connection.blobopen("large_payload", "payload", seq) as blob:
                    view = memoryview(payload)
                    for at in range(0, len(view), PIECE):
                        blob.write(view[at : at + PIECE])
        self._note_large(len(payload) for _, payload in values)

    def each(self, query: str, values: Sequence[Values]) -> None:
        """Run a statement for each of these values; each time it has to change one row."""
        if values and self.connection.executemany(SQL[query], values).rowcount != len(values):
            raise StaleError(query)


def _replaced(found: bytes) -> str:
    return found.decode(errors="replace")


def _text_or_bytes(byte_count: bytes) -> str | bytes:
    try:
        return byte_count.decode()
    except UnicodeDecodeError:
        return byte_count


# One transaction on SQLite: its operations, and how it ends.


def commit(
    connection: sqlite3.Connection,
    names: NodeIds,
    job: Callable[[Transaction], T],
    *,
    foreign: bool,
) -> T:
    """Run the job in the open transaction, and commit it; if this raises, the transaction stays open."""
    opened = SqliteSession(connection, names)
    transaction = SqlTransaction(opened, words, foreign=foreign)
    result = job(transaction)
    transaction.check()
    connection.execute("COMMIT")
    if opened.large > MOST_CACHED:
        with suppress(sqlite3.Error):  # the batch is committed
            connection.execute("PRAGMA shrink_memory")
        _return_free_pages()
    return result


def _return_free_pages() -> None:
    """Have glibc return free pages to the system: by itself it returns only those at the end of its heap. It takes a millisecond or two."""
    with suppress(OSError, AttributeError):  # another C library has no such function
        ctypes.CDLL(None).malloc_trim(0)


def look(connection: sqlite3.Connection, job: Callable[[Transaction], T]) -> T:
    """Run a job on one snapshot; in WAL mode it neither waits for the writer nor makes it wait."""
    with translated():
        try:
            roll_back(connection)
            connection.execute("BEGIN")
            transaction = SqlTransaction(SqliteSession(connection, NodeIds()), words, foreign=True)
            result = job(transaction)
            transaction.check()
            return result
        finally:
            roll_back(connection)


def roll_back(connection: sqlite3.Connection) -> None:
    """Roll back the open transaction, if there is one."""
    if connection.in_transaction:
        connection.execute("ROLLBACK")
