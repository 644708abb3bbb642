"""A connection and the thread that it is used on; it is made when it is needed, and made anew when it is lost."""

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

from pubqueue.app.store.ports import StoreError, UnreachableStoreError
from pubqueue.stores.postgres.errors import said, translated
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
"""Unless the address says otherwise: a server that is gone without a word is noticed in seconds, and of several that are
named the one is taken that can be written to."""

CLOSE_TIMEOUT: Final = 0.5
"""Seconds that a thread has to come to an end when its connection is closed, and again when that is cut."""

PREPARED: Final = 512
"""Prepared statements to keep: more than there are."""


class DatabaseConnection:
    """One connection. What is done with it is done on its thread, one after the other."""

    def __init__(self, conninfo: str) -> None:
        self._conninfo = conninfo
        self._thread = OwnThread("postgres")
        self._connection: psycopg.Connection | None = None
        self._made: psycopg.Connection | None = None
        self.closing = threading.Event()
        """It is being closed: nothing is waited for any more."""
        self.warned = False
        """The server has warned: so it does of a commit that no standby has."""

    @property
    def is_new(self) -> bool:
        """Whether there is no connection now, so that the next one will be new."""
        return self._connection is None or self._connection.closed

    async def run(self, job: Callable[[], T]) -> T:
        """Run a job on the thread; what PostgreSQL or the way to it refuses is a StoreError."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, _translated, job)

    def tried(self, job: Callable[[], T], again: Callable[[], bool] = lambda: True) -> T:
        """Do a job, on the thread; once more on a new connection if it was the old one that was lost."""
        fresh = self.is_new
        try:
            return job()
        except (psycopg.OperationalError, StoreError):
            if fresh or not self.is_new or not again():
                raise
        return job()

    def connection(self) -> psycopg.Connection:
        """Return the connection, made ready anew if it was lost."""
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
        """Roll back what is open; a connection that cannot even do that is let go."""
        connection = self._connection
        if connection is None or connection.closed:
            return
        try:
            connection.execute("ROLLBACK", prepare=False)
        except psycopg.Error:
            self.drop()

    def drop(self) -> None:
        """Let the connection go."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error):
                connection.close()

    async def close(self) -> None:
        """Let go of the connection and of the thread.

        What the thread is doing it may bring to an end, if that is soon; else the connection is cut under it. A thread
        that even then does not come back is left alone: it keeps no process from ending.
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
        """End the connection from outside, whatever its thread waits for."""
        if self._made is None:
            return
        with (
            suppress(psycopg.Error, OSError),
            socket.socket(fileno=os.dup(self._made.fileno())) as wire,
        ):
            wire.shutdown(socket.SHUT_RDWR)


async def _is_done(work: asyncio.Future[None]) -> bool:
    """Wait a moment for the end of the work; say whether it came."""
    done, _ = await asyncio.wait([work], timeout=CLOSE_TIMEOUT)
    return bool(done)


def completed(address: str) -> str:
    """Return what psycopg connects by: an address, and what it does not say.

    Raises:
        ValueError: it is no address; what it is may hold a password, so it is not told.

    """
    try:
        given = conninfo_to_dict(address)
        for port in str(given.get("port", 0)).split(","):
            int(port)  # libpq would repeat it in its error, and it may be a piece of a password
    except (psycopg.ProgrammingError, ValueError):
        raise ValueError(
            "store: postgresql://... is no address that PostgreSQL's library reads"
        ) from None
    return make_conninfo(**(CONNECTION | {key: str(value) for key, value in given.items()}))


def connected(conninfo: str) -> psycopg.Connection:
    """Return a new connection, not made ready yet."""
    try:
        connection: psycopg.Connection = psycopg.connect(
            conninfo, autocommit=True, prepare_threshold=0, cursor_factory=psycopg.RawCursor
        )
    except psycopg.OperationalError as problem:
        raise UnreachableStoreError(said(problem)) from problem
    connection.prepared_max = PREPARED
    return connection


def _translated(job: Callable[[], T]) -> T:
    with translated():
        return job()
