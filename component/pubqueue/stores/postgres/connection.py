"""A connection and its thread, the clock of the database, and poolers that are detected."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from concurrent.futures import Executor, Future
from contextlib import closing, suppress
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

import psycopg
import structlog
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from pubqueue.engine.ports import ForeignStoreError, StoreError, UnreachableStoreError
from pubqueue.model.entities import Millis
from pubqueue.stores.postgres.schema import prepare, text_of, translated

if TYPE_CHECKING:
    from collections.abc import Callable

    from psycopg import Connection
    from psycopg.errors import Diagnostic


# A connection and the thread that uses it; it is opened when it is needed, and reopened when it is lost.

T = TypeVar("T")

log = structlog.get_logger(__name__)

CONNECTION: Final = {
    "connect_timeout": "5",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
    "application_name": "pubqueue",
    "target_session_attrs": "read-write",
}
"""Defaults for what the address does not set: a server that is gone is noticed in seconds, and of several servers in the
address the one is used that can be written to."""

CLOSE_TIMEOUT: Final = 0.5
"""Seconds that a thread has to end when its connection is closed, and again after the connection is cut."""

PREPARED: Final = 512
"""Prepared statements to keep; there are fewer."""


class DatabaseConnection:
    """One connection. Its jobs run on its thread, one after the other."""

    def __init__(self, conninfo: str) -> None:
        self._conninfo = conninfo
        self._thread = OwnThread("postgres")
        self._connection: psycopg.Connection | None = None
        self._made: psycopg.Connection | None = None
        self.closing = threading.Event()
        """Set when it is being closed: nothing is waited for any more."""
        self.warned = False
        """Whether the server has sent a warning, as it does for a commit that no standby has."""

    @property
    def is_new(self) -> bool:
        """Whether there is no connection now, so that the next job opens one."""
        return self._connection is None or self._connection.closed

    async def run(self, job: Callable[[], T]) -> T:
        """Run a job on the thread; errors of PostgreSQL or of the network are raised as StoreError."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, _translated, job)

    def tried(self, job: Callable[[], T], again: Callable[[], bool] = lambda: True) -> T:
        """Run a job, on the thread; if the connection was lost, retry once on a new one."""
        fresh = self.is_new
        try:
            return job()
        except (psycopg.OperationalError, StoreError):
            if fresh or not self.is_new or not again():
                raise
        return job()

    def connection(self) -> psycopg.Connection:
        """Return the connection; if it was lost, open and prepare a new one."""
        connection = self._connection
        if connection is None or connection.closed:
            connection = self._made = connected(self._conninfo)
            connection.add_notice_handler(self._warn)
            try:
                prepare(connection)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return connection

    def _warn(self, _notice: Diagnostic) -> None:
        self.warned = True

    def undo(self) -> None:
        """Roll back the open transaction; drop the connection if even that fails."""
        connection = self._connection
        if connection is None or connection.closed:
            return
        try:
            connection.execute("ROLLBACK", prepare=False)
        except psycopg.Error:
            self.drop()

    def drop(self) -> None:
        """Drop the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error):
                connection.close()

    async def close(self) -> None:
        """Close the connection and end the thread.

        The thread may finish its job within `CLOSE_TIMEOUT`; after that the connection is cut. A thread that does not
        end even then is abandoned: it does not keep the process from ending.
        """
        self.closing.set()
        loop = asyncio.get_running_loop()
        dropped = loop.run_in_executor(self._thread, self.drop)
        if not await _is_done(dropped):
            log.warning("store.cut_off")
            self._cut()
            await _is_done(dropped)
        self._thread.shutdown(wait=False)

    def _cut(self) -> None:
        """End the connection from another thread, whatever its own waits for."""
        if self._made is None:
            return
        with (
            suppress(psycopg.Error, OSError),
            socket.socket(fileno=os.dup(self._made.fileno())) as wire,
        ):
            wire.shutdown(socket.SHUT_RDWR)


async def _is_done(work: asyncio.Future[None]) -> bool:
    """Wait up to `CLOSE_TIMEOUT` for the end of the work; return whether it has ended."""
    done, _ = await asyncio.wait([work], timeout=CLOSE_TIMEOUT)
    return bool(done)


def completed(address: str) -> str:
    """Return the connection string for psycopg: the address, completed by defaults.

    Raises:
        ValueError: it is not an address. The message does not contain it, because it may contain a password.

    """
    try:
        given = conninfo_to_dict(address)
        for port in str(given.get("port", 0)).split(","):
            int(port)  # libpq would repeat it in its error, and it may be a part of a password
    except (psycopg.ProgrammingError, ValueError):
        raise ValueError(
            "store: postgresql://... is no address that PostgreSQL's library reads"
        ) from None
    return make_conninfo(**(CONNECTION | {key: str(value) for key, value in given.items()}))


def connected(conninfo: str) -> psycopg.Connection:
    """Return a new connection that is not prepared yet."""
    try:
        connection: psycopg.Connection = psycopg.connect(
            conninfo, autocommit=True, prepare_threshold=0, cursor_factory=psycopg.RawCursor
        )
    except psycopg.OperationalError as problem:
        raise UnreachableStoreError(text_of(problem)) from problem
    connection.prepared_max = PREPARED
    return connection


def _translated(job: Callable[[], T]) -> T:
    with translated():
        return job()


# The clock of the database. Deadlines of locks are set and judged by it, because it is the only one that all instances share.
#
# Each batch gets the time with its first answer, at no cost. Between batches it is computed from the clock of the machine.

LATE: Final = 250
"""Milliseconds by which an answer may be late. One that would set the clock back further has to be confirmed."""

SEEN: Final = 3
"""Consecutive answers that confirm it."""

WORTH_A_WORD: Final = 1000
"""Milliseconds by which the difference of the clocks has to change to be logged."""


class ServerClock:
    """The time of the database, computed from the clock of this machine.

    Each answer is late by its latency. So the greatest difference is the most accurate, and one slow answer does not set the
    clock back.
    """

    def __init__(self) -> None:
        self._machine: Callable[[], Millis] | None = None
        self._ahead: int | None = None
        self._lower: list[int] = []
        self._logged = 0

    @property
    def ahead(self) -> int:
        """How many milliseconds the database's clock is ahead of this machine's, if known."""
        return self._ahead or 0

    def beside(self, machine: Callable[[], Millis]) -> Callable[[], Millis]:
        """Return a clock that returns the time of the database, in milliseconds since 1970, from this machine's clock."""
        self._machine = machine
        return lambda: Millis(machine() + self.ahead)

    def note_time(self, now: Millis) -> None:
        """Note the time that the database has just returned."""
        if self._machine is None:
            return
        ahead = now - self._machine()
        if self._ahead is None or ahead >= self._ahead:
            self._adopt(ahead)
        elif ahead >= self._ahead - LATE:
            self._lower.clear()
        else:
            self._lower.append(ahead)
            if len(self._lower) == SEEN:
                self._adopt(max(self._lower))

    def _adopt(self, ahead: int) -> None:
        self._ahead = ahead
        self._lower.clear()
        if abs(ahead - self._logged) >= WORTH_A_WORD:
            self._logged = ahead
            log.warning("clock.differs", database_ahead=round(ahead / 1000, 1))


# One thread that runs jobs in order, and that a process does not wait for when it ends.
#
# Python waits for the threads of its own pools when it ends. A thread that waits for a server that does not answer would
# keep the process alive for as long as that takes.

P = ParamSpec("P")


class OwnThread(Executor):
    """Runs the submitted jobs, one after the other, on a thread of this name."""

    def __init__(self, name: str) -> None:
        self._jobs: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._has_started = False

    def submit(self, job: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run the job after the earlier ones."""
        if not self._has_started:
            self._has_started = True
            self._thread.start()
        done: Future[T] = Future()
        self._jobs.put((done, partial(job, *args, **kwargs)))
        return done

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002
        """End the thread after the last job; `wait` for that."""
        self._jobs.put(None)
        if wait and self._has_started:
            self._thread.join()

    def _work(self) -> None:
        while (taken := self._jobs.get()) is not None:
            done, job = taken
            if not done.set_running_or_notify_cancel():
                continue
            try:
                result = job()
            except BaseException as problem:
                done.set_exception(problem)
            else:
                done.set_result(result)
            del taken, done, job  # the wait for the next job keeps no objects alive


# Detects a pooler before PostgreSQL that changes sessions between transactions: session state is not kept then.
#
# The locks of living processes, the settings of a session and its LISTEN would then belong to other clients. Such a pooler
# returns a process number of its own. If that differs from the server's, a test shows whether two connections share a
# session, or one changes its own.

TRIES: Final = 3
"""Attempts of the test: other clients may take a session in between."""

SENTENCE: Final = (
    "a pooler is between, which keeps no sessions (transactions or statements are what it pools):"
    " have it pool sessions, or connect to the server itself"
)


def see_that_sessions_are_kept(conninfo: str) -> None:
    """Check that a connection keeps its session.

    Raises:
        ForeignStoreError: a pooler gives it to other clients between transactions.
        UnreachableStoreError: the server cannot be connected to.

    """
    with closing(connected(conninfo)) as one:
        if one.info.backend_pid == _process(one):
            return
        with closing(connected(conninfo)) as other:
            try:
                shared = any(_share(one, other) for _ in range(TRIES))
            except errors.ProtocolViolation as problem:  # it does not even keep transactions
                raise ForeignStoreError(SENTENCE) from problem
            if shared:
                raise ForeignStoreError(SENTENCE)


def _share(one: Connection, other: Connection) -> bool:
    """Return whether the two connections share a session, or the session of `one` has changed."""
    before = _process(one)
    with other.transaction():
        return _process(other) == before or _process(one) != before


def _process(connection: Connection) -> int:
    row = connection.execute("SELECT pg_backend_pid()", prepare=False).fetchone()
    assert row is not None
    return int(row[0])
