"""A connection and the thread that uses it; it is opened when it is needed, and reopened when it is lost."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeVar

import psycopg
import structlog
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from pubqueue.engine.ports import StoreError, UnreachableStoreError
from pubqueue.stores.postgres.errors import text_of, translated
from pubqueue.stores.postgres.own_thread import OwnThread
from pubqueue.stores.postgres.schema import prepare

if TYPE_CHECKING:
    from collections.abc import Callable

    from psycopg.errors import Diagnostic

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
