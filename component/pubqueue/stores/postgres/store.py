"""The PostgreSQL store, and its transactions."""

from __future__ import annotations

import asyncio
import secrets
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import psycopg

from pubqueue.engine.ports import FencedError, ForeignStoreError, StoreError
from pubqueue.model.entities import Millis
from pubqueue.stores.postgres.connection import (
    DatabaseConnection,
    ServerClock,
    completed,
    see_that_sessions_are_kept,
)
from pubqueue.stores.postgres.instances import CHANNEL, Instances, cut_off, cutting_off, sweep
from pubqueue.stores.postgres.schema import (
    ARRAYS,
    GUARDED,
    LOCK,
    SQL,
    columns,
    not_opened,
    translated,
    words,
)
from pubqueue.stores.sql import session
from pubqueue.stores.sql.session import NodeIds
from pubqueue.stores.sql.transaction import SqlTransaction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from psycopg import Connection, Cursor

    from pubqueue.engine.ports import Transaction
    from pubqueue.stores.sql.session import Values


# The PostgreSQL store: one transaction for each batch, on its own thread, with concurrent readers.
#
# The writer holds an advisory lock for the length of the transaction, over all processes. So a batch sees all commits of
# the batches before it, numbers rise without gaps in the order of commits, and no batch loses a race in the middle.
# Claiming items with FOR UPDATE SKIP LOCKED would let batches overlap. But a batch loads rows, decides and writes, so
# there would be races on counts, windows and event numbers. Writes are guarded nevertheless (StaleError), because a
# batch may have decided on rows cached before the last commit of another process.

T = TypeVar("T")

READING: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

STANDING: Final = """
    SELECT batches, nodes, (SELECT json_object_agg(name, next) FROM sequence),
        (SELECT epoch FROM instance WHERE number = $1), (extract(epoch FROM clock_timestamp()) * 1000)::bigint
    FROM writing
"""

ENDS: Final = ("08", "57")
"""Classes of errors that end a connection or the server: connection exception, operator intervention."""

PAUSE: Final = 0.2
"""Seconds between two attempts to find out whether a batch was committed."""


class _Standing(NamedTuple):
    """How many batches all processes have written, how many nodes they have purged or deleted, and the next numbers of sequences.

    `epoch` is that of the process that now has the number of this one, and `now` the time of the database.
    """

    batches: int
    nodes: int
    numbers: dict[str, int]
    epoch: int | None
    now: int


class _Batch:
    """The progress of a batch: its job has begun, or it has written something and is being committed."""

    begun = ending = False


class PostgresStore:
    """Implements `pubqueue.engine.ports.Store` in a schema of a database."""

    def __init__(self, conninfo: str) -> None:
        self._conninfo = completed(conninfo)
        self.line: DatabaseConnection | None = None
        self.reader: DatabaseConnection | None = None
        self._opening = asyncio.Lock()
        self._names = NodeIds()
        self.writer_id = secrets.token_hex(8)
        self.instances = Instances(self._conninfo, self.writer_id)
        self._batch = 0
        self._committed = 0
        self._changes_seen = 0
        self._nodes_seen = 0
        self._batch_seen: int | None = None
        self._clock = ServerClock()

    def clock(self, machine: Callable[[], Millis]) -> Callable[[], Millis]:
        """Return the clock of the database, if known, which processes on several machines share."""
        return self._clock.beside(machine)

    @property
    def clock_ahead(self) -> int:
        """How many milliseconds the database's clock is ahead of this machine's, if known."""
        return self._clock.ahead

    @property
    def conninfo(self) -> str:
        """The connection string for psycopg; it may contain a password."""
        return self._conninfo

    async def open(self) -> None:
        """Connect, and migrate the schema to the newest version.

        Raises:
            ForeignStoreError: the schema is not ours, is newer than this program, or is unusable.
            UnreachableStoreError: the server cannot be connected to, or failed meanwhile.

        """
        if self.line is not None:
            return
        line = DatabaseConnection(self._conninfo)
        self.instances.forget()
        try:
            await line.run(lambda: see_that_sessions_are_kept(self._conninfo))
            self._changes_seen = await line.run(lambda: self.of_others(line.connection()))
            await line.run(lambda: sweep(line.connection()))
        except StoreError as problem:
            await line.close()
            raise not_opened(problem) from problem
        except BaseException:
            await line.close()
            raise
        self._batch_seen = None
        self.reader, self.line = DatabaseConnection(self._conninfo), line

    async def close(self) -> None:
        """Close the connections, within about a second even if the server does not answer. Closing twice does no harm."""
        async with self._opening:
            lines = [line for line in (self.line, self.reader) if line is not None]
            self.line = self.reader = None
            await asyncio.gather(self.instances.close(), *(line.close() for line in lines))

    async def batch(self, job: Callable[[Transaction], T]) -> T:
        """Run the job in one transaction and return its result once it is on disk."""
        line = self._opened(self.line)
        return await line.run(lambda: self.transact(line, job))

    async def read(self, job: Callable[[Transaction], T]) -> T:
        """Run the job on the committed data, on a connection that only reads."""
        line = self._opened(self.reader)
        return await line.run(lambda: line.tried(lambda: look(line, job)))

    async def changes(self) -> bool:
        """Return whether another process has written since the last call."""
        line = self._opened(self.line)
        changes = await line.run(lambda: line.tried(lambda: self.of_others(line.connection())))
        seen, self._changes_seen = self._changes_seen, changes
        return seen != changes

    def _opened(self, line: DatabaseConnection | None) -> DatabaseConnection:
        if line is None:
            raise StoreError("the store is closed")
        return line

    def of_others(self, connection: psycopg.Connection) -> int:
        """Return how many batches of other processes are committed."""
        return self._standing(connection).batches - self._committed

    def _standing(self, connection: psycopg.Connection) -> _Standing:
        """Return the standing of all processes."""
        row = connection.execute(STANDING, (self.instances.number,)).fetchone()
        if row is None:
            raise StoreError("the store has lost its count of batches")
        standing = _Standing(*row)
        self._clock.note_time(Millis(standing.now))
        return standing

    def _see_that_it_serves(self, standing: _Standing) -> None:
        """Check that the number of this process, if it has one, is still its own; no other process writes meanwhile."""
        if (mine := self.instances.epoch) is not None and standing.epoch != mine:
            raise FencedError(f"somebody else has taken the number {self.instances.number}")

    # --- on the thread ---

    def transact(self, line: DatabaseConnection, job: Callable[[Transaction], T]) -> T:
        """Run a batch.

        If the connection is found lost before the job has begun, a new one is opened, once. A process that hangs with the lock
        is disconnected.
        """
        batch = _Batch()
        try:
            return line.tried(lambda: self._attempt(line, job, batch), lambda: not batch.begun)
        except psycopg.errors.LockNotAvailable:
            if batch.begun or not cut_off(line.connection()):
                raise
        return self._attempt(line, job, batch)

    def _attempt(
        self, line: DatabaseConnection, job: Callable[[Transaction], T], batch: _Batch
    ) -> T:
        connection = line.connection()
        self._batch += 1
        try:
            with connection.pipeline():
                connection.execute("BEGIN")
                connection.execute("SELECT pg_advisory_xact_lock($1)", (LOCK,))
                standing = self._standing(connection)
                self._see_that_it_serves(standing)
                mark = self.writer_id, self._batch, self.instances.number
                session = PostgresSession(connection, self._names, mark, standing.numbers)
                foreign = self._others_wrote(standing)
                transaction = SqlTransaction(session, words, foreign=foreign)
                batch.begun = True
                result = job(transaction)
                transaction.check()
                batch.ending = session.written
                line.warned = False
                committing = connection.execute("COMMIT", prepare=False)
            _check_committed(committing, warned=batch.ending and line.warned)
        except BaseException as problem:
            self._names.clear()
            warned = line.warned and isinstance(problem, psycopg.Error)
            unknown = batch.ending and (warned or _may_be_committed(connection, problem))
            if unknown and not warned:
                line.drop()  # it may be in any state; the lock is free once its transaction is over
            if not (unknown and self.is_committed(line, problem)):
                line.undo()
                raise
        self._committed += session.written
        return result

    def _others_wrote(self, now: _Standing) -> bool:
        """Return whether another process has written since the last batch began."""
        if now.nodes != self._nodes_seen:
            self._names.clear()
        self._nodes_seen = now.nodes
        others = now.batches - self._committed
        seen, self._batch_seen = self._batch_seen, others
        return seen != others

    def is_committed(self, line: DatabaseConnection, problem: BaseException) -> bool:
        """Return whether our last batch, whose commit was not answered, is committed; that may take long.

        Raises:
            StoreError: the store was closed meanwhile, or the record of the batch is gone.

        """
        while True:
            try:
                connection, line.warned = line.connection(), False
                last = self._last_batch(connection)
                if not line.warned:
                    return last == self._batch
            except (psycopg.Error, ForeignStoreError):
                line.drop()
            if line.closing.wait(PAUSE):
                raise StoreError(f"nobody knows whether a batch was committed: {problem}")

    def _last_batch(self, connection: psycopg.Connection) -> int | None:
        """Return our last committed batch. The lock is free when the lost connection has ended.

        This writes, so that its commit waits for the standbys that the batch's commit should have waited for.
        """
        with cutting_off(connection), connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock($1)", (LOCK,))
            row = connection.execute(
                "UPDATE writer SET seen = now() WHERE id = $1 RETURNING batch", (self.writer_id,)
            ).fetchone()
        if row is None and self._committed:
            raise StoreError("nobody knows any more whether a batch was committed")  # `writers`
        return None if row is None else int(row[0])


def _may_be_committed(connection: psycopg.Connection, problem: BaseException) -> bool:
    """Return whether a COMMIT that was sent may have been executed in spite of the error.

    Only an error code of the server's own rules that out; a server that ends may have committed before. libpq reports the end
    of a server in many ways, and does not always close the connection at once.
    """
    if not isinstance(problem, psycopg.Error):
        return False
    return connection.closed or problem.sqlstate is None or problem.sqlstate[:2] in ENDS


def _check_committed(cursor: psycopg.Cursor[Any], *, warned: bool) -> None:
    """Check that a COMMIT committed: for a failed transaction the answer is that it was rolled back."""
    if warned:
        raise psycopg.OperationalError("perhaps no standby has what was committed")
    if cursor.statusmessage != "COMMIT":
        raise StoreError("the transaction is lost")


def look(line: DatabaseConnection, job: Callable[[Transaction], T]) -> T:
    """Run a job on one snapshot; it neither waits for the writer nor makes it wait."""
    connection = line.connection()
    try:
        with connection.pipeline():
            connection.execute(READING)
            session = PostgresSession(connection, NodeIds(), None)
            transaction = SqlTransaction(session, words, foreign=True)
            result = job(transaction)
            transaction.check()
            return result
    finally:
        line.undo()


# An open transaction of PostgreSQL: statements by name, sent without waiting for answers that are not needed yet.

NOTE: Final = f"""
    WITH counted AS (UPDATE writing SET batches = batches + 1)
    INSERT INTO writer (id, batch) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET batch = excluded.batch, seen = now()
    RETURNING CASE WHEN EXISTS (SELECT 1 FROM instance WHERE number <> $3) THEN pg_notify('{CHANNEL}', $1) END
"""  # noqa: S608  # ours
"""Notes that a batch writes. Other processes see that by the count; the writer's own row shows whether it was committed.

If other processes serve too, the commit notifies them. A process that is alone sends no notification, because that costs a
lock over all databases.
"""

FORGET: Final = "UPDATE writing SET nodes = nodes + 1"


class _Answer:
    """Rows that are not read yet."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor

    def __iter__(self) -> Iterator[Any]:
        with translated():
            return iter(self._cursor.fetchall())


class PostgresSession(session.SqlSession):
    """Runs statements by name in a pipeline.

    Writes are sent without waiting. A stale write is reported with the next answer, at the latest before the commit.

    `mark` identifies a batch: its process, which of its batches it is, and its number there. A reader has none.

    `numbers` are the next ones of all sequences. No other process can take any while the batch holds the lock, so they
    are reserved without waiting for an answer.
    """

    def __init__(
        self,
        connection: Connection,
        names: NodeIds,
        mark: tuple[str, int, int] | None,
        numbers: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        super().__init__(names)
        self._numbers = dict(numbers)
        self._connection = connection
        self._mark = mark
        self.written = False

    def rows(self, query: str, *values: object) -> list[Any]:
        """Return all rows of a statement."""
        return list(self.ask(query, *values))

    def ask(self, query: str, *values: object) -> Iterable[Any]:
        """Ask for the rows of a statement; iterating them waits for the answer."""
        return _Answer(self._send(SQL[query], values))

    def row(self, query: str, *values: object) -> Any:  # noqa: ANN401  # a row of that query
        """Return the first row, None if there is none."""
        return next(iter(self.ask(query, *values)), None)

    def stream(self, query: str, room: int, *values: object) -> Iterator[Any]:
        """Yield rows whose last column is a payload; the statement itself stops when `room` is used up."""
        return iter(self.rows(query, *values, room))

    def run(self, query: str, *values: object) -> None:
        """Run a statement, however many rows it changes."""
        self.note()
        self._send(SQL[query], values)

    def must(self, query: str, count: int, *values: object) -> None:
        """Run a statement that has to change `count` rows; otherwise the transaction fails."""
        self.note()
        self._send(GUARDED[query], (*values, count))

    def many(self, query: str, values: Sequence[Values]) -> None:
        """Run a statement for each of these values, however many rows that changes."""
        if values:
            self.run(query, *columns(ARRAYS[query], values))

    def each(self, query: str, values: Sequence[Values]) -> None:
        """Run a statement for each of these values; each time it has to change one row."""
        if values:
            self.must(query, len(values), *columns(ARRAYS[query], values))

    def number(self, sequence: str, count: int) -> int:
        """Reserve `count` numbers of a sequence and return the first."""
        first = self._numbers.get(sequence, 1)
        if count:
            self.run("number", count, sequence)
            self._numbers[sequence] = first + count
        return first

    def forget_nodes(self) -> None:
        """Let every process look up the ids of nodes again: some no longer exist."""
        self._send(FORGET, ())

    def note(self) -> None:
        """Note, once for the batch, that it writes."""
        if not self.written:
            self.written = True
            if self._mark is not None:
                self._send(NOTE, self._mark)

    def _send(self, statement: str, values: Sequence[object]) -> Cursor:
        with translated():
            return self._connection.cursor(binary=True).execute(statement, values)
