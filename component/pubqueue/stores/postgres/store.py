"""The PostgreSQL store: one transaction for each batch, on its own thread, with concurrent readers.

The writer holds an advisory lock for the length of the transaction, over all processes. So a batch sees all commits of
the batches before it, numbers rise without gaps in the order of commits, and no batch loses a race in the middle.
Claiming items with FOR UPDATE SKIP LOCKED would let batches overlap. But a batch loads rows, decides and writes, so
there would be races on counts, windows and event numbers. Writes are guarded nevertheless (StaleError), because a
batch may have decided on rows cached before the last commit of another process.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import psycopg

from pubqueue.engine.ports import FencedError, ForeignStoreError, StoreError, UnreachableStoreError
from pubqueue.model.entities import Millis
from pubqueue.stores.guarded import Guarded
from pubqueue.stores.postgres.clock import ServerClock
from pubqueue.stores.postgres.connection import DatabaseConnection, completed
from pubqueue.stores.postgres.errors import words
from pubqueue.stores.postgres.instances.instances import Instances
from pubqueue.stores.postgres.instances.stuck_writers import cut_off, cutting_off
from pubqueue.stores.postgres.instances.writers import sweep
from pubqueue.stores.postgres.locks import LOCK
from pubqueue.stores.postgres.pooled import see_that_sessions_are_kept
from pubqueue.stores.postgres.session import PostgresSession
from pubqueue.stores.postgres.transaction import PostgresTransaction
from pubqueue.stores.sql.node_ids import NodeIds

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.engine.ports import Transaction

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
            UnreachableStoreError: the server cannot be connected to.

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
            if isinstance(problem, UnreachableStoreError):
                raise UnreachableStoreError(f"PostgreSQL: {problem}") from problem
            raise ForeignStoreError(f"PostgreSQL: {problem}") from problem
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
                transaction = Guarded(PostgresTransaction(session, foreign=foreign), words)
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
            transaction = Guarded(PostgresTransaction(session, foreign=True), words)
            result = job(transaction)
            transaction.check()
            return result
    finally:
        line.undo()
