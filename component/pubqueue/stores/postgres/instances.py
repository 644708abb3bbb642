"""The instances on a database: each process has a row with its number, the epoch under which it has it, and a lease.

The lease runs by the clock of the database and is renewed once a second. A shared advisory lock under the epoch, on the
same connection, ends with the process or its machine, so that others need not wait for the end of the lease. The number of
a dead process is taken by giving it another epoch, while no process writes. The first answer of each batch shows whether
the epoch is still its own (`store`). So a process that only seemed to be dead commits nothing more, and enters again.

On the same connection a process is notified of each committed batch of the others.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

import psycopg
import structlog
from psycopg.errors import LockNotAvailable

from pubqueue.engine.ports import FencedError, ForeignStoreError, Instance, StoreError
from pubqueue.stores.postgres import schema
from pubqueue.stores.postgres.connection import DatabaseConnection
from pubqueue.stores.sql.columns import LEASE, LeaseWatch
from pubqueue.stores.sql.session import unfinished_copy, unlike

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from psycopg import Connection


MAX_INSTANCES: Final = 1024
"""The maximum number of processes on one database."""

CHANNEL: Final = "pubqueue"
"""The channel on which a process that has written sends its name."""

NOBODY: Final = -1

MODEST: Final = f"LISTEN {CHANNEL}; SET synchronous_commit = off"
"""These rows may be lost in a power failure: a process without its row enters again."""

OTHERS: Final = """
    SELECT number, epoch, until <= clock_timestamp(), NOT EXISTS (
        SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2 AND granted
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND classid::bigint = $1 AND objid::bigint = epoch
    ) FROM instance ORDER BY number
"""
"""For each process, whether its lease is over, and whether it has no connection."""

RENEW: Final = """
    UPDATE instance SET until = clock_timestamp() + make_interval(secs => $3)
    WHERE number = $1 AND epoch = $2
"""

TAKE: Final = """
    UPDATE instance SET epoch = $3, until = clock_timestamp() + make_interval(secs => $4)
    WHERE number = $1 AND epoch = $2 AND (until <= clock_timestamp() OR $5)
"""

MAKE: Final = """
    INSERT INTO instance (number, epoch, until)
    VALUES ($1, $2, clock_timestamp() + make_interval(secs => $3)) ON CONFLICT DO NOTHING
"""


class Instances:
    """Implements `pubqueue.engine.ports.Instances` by rows with leases.

    `name` identifies this process; `number` is its number, `NOBODY` before it has one.
    """

    def __init__(self, conninfo: str, name: str) -> None:
        self.number = NOBODY
        self._conninfo = conninfo
        self._name = name
        self.line: DatabaseConnection | None = None
        self.listens_on: Connection | None = None
        self._held: dict[int, int] = {}
        self._mine: tuple[int, int] | None = None
        self._watch = LeaseWatch()

    @property
    def epoch(self) -> int | None:
        """The epoch under which this process has its number, None if it has none."""
        return None if self._mine is None else self._mine[1]

    async def enter(self) -> Instance:
        """Take the first number that no living process has.

        Raises:
            ForeignStoreError: all numbers are taken, another process copies the store, or it is an incomplete copy.
            UnreachableStoreError: the server cannot be connected to, or failed meanwhile.

        """
        line = self.line = self.line or DatabaseConnection(self._conninfo)
        try:
            found = await line.run(lambda: line.tried(lambda: self._enter(self._ready(line))))
        except StoreError as problem:
            raise schema.not_opened(problem) from problem
        self.number = found.number
        self._mine = found.number, self._held[found.number]
        return found

    async def renew(self) -> None:
        """Renew the lease of this process, and those of the numbers that it has taken.

        Raises:
            FencedError: another process has taken its number.
            StoreError: the database cannot be reached.

        """
        if (line := self.line) is not None and self._held:
            await line.run(lambda: line.tried(lambda: self._renew(self._ready(line))))

    async def abandoned(self) -> list[int]:
        """Take the numbers of processes that died."""
        line = self.line = self.line or DatabaseConnection(self._conninfo)
        return await line.run(lambda: line.tried(lambda: self._abandoned(self._ready(line))))

    async def leave(self, number: int) -> None:
        """Free a number: its row is removed."""
        line = self.line
        if line is not None and number in self._held:
            await line.run(lambda: line.tried(lambda: self._leave(self._ready(line), number)))
            if number == self.number:
                self.number, self._mine = NOBODY, None

    async def wait_for_change(self, patience: float) -> None:
        """Wait until another process reports, or may have reported, that it wrote, or until `patience` seconds have passed."""
        loop = asyncio.get_running_loop()
        until = loop.time() + patience
        line = self.line = self.line or DatabaseConnection(self._conninfo)
        try:
            while (
                socket := await line.run(lambda: line.tried(lambda: self._quiet(line)))
            ) is not None:
                if not await _sends(socket, until):
                    return
        except StoreError:
            await asyncio.sleep(until - loop.time())

    def forget(self) -> None:
        """Have no number: the store is being opened. Work that was under way when it was closed stays fenced."""
        self._mine = None

    async def close(self) -> None:
        """Drop all numbers, as if the process had died."""
        line, self.line = self.line, None
        if line is not None:
            held, self._held = self._held, {}
            ending = asyncio.create_task(line.run(lambda: _end_leases(line, held)))
            await asyncio.sleep(
                0
            )  # it is queued before the end of the connection, which waits only briefly
            await line.close()
            ending.cancel()
            await asyncio.gather(ending, return_exceptions=True)
        self.number = NOBODY
        self.listens_on = None

    # --- on the thread ---

    def _ready(self, line: DatabaseConnection) -> Connection:
        """Return the connection; a new one listens, and takes the locks of the held numbers."""
        connection = line.connection()
        if connection is not self.listens_on:
            connection.execute(MODEST.encode(), prepare=False)
            for epoch in self._held.values():
                _lock(connection, epoch)
            self._watch.touched(anew=self.listens_on is not None)
            self.listens_on = connection
        return connection

    def _quiet(self, line: DatabaseConnection) -> int | None:
        """Return a copy of the socket, to be waited on and closed; None if another process has sent a notification, or may have before the connect."""
        before = self.listens_on
        connection = self._ready(line)
        payloads = [word.payload for word in connection.notifies(timeout=0)]
        changed = connection is not before or any(name != self._name for name in payloads)
        return None if changed else os.dup(connection.fileno())

    def _enter(self, connection: Connection) -> Instance:
        epoch = _drawn()
        _lock(connection, epoch)
        try:
            see_that_it_is_nobodys(connection)
            return self._first_free(connection, epoch)
        except BaseException:
            if not connection.closed:
                _unlock(connection, epoch)
            raise

    def _first_free(self, connection: Connection, epoch: int) -> Instance:
        there = {row[0]: row for row in connection.execute(OTHERS, (schema.LOCK,)).fetchall()}
        for number in range(MAX_INSTANCES):
            if self._takes(connection, epoch, number, there.get(number)):
                self._held[number] = epoch
                self._watch.touched()
                return Instance(number, died=number in there)
        raise StoreError(f"{MAX_INSTANCES} processes serve from this database already")

    def _takes(
        self,
        connection: Connection,
        epoch: int,
        number: int,
        row: tuple[int, int, bool, bool] | None,
    ) -> bool:
        """Take a number for this epoch if it is free or its process is dead; return whether that succeeded."""
        if row is None:
            return connection.execute(MAKE, (number, epoch, LEASE)).rowcount == 1
        _, before, is_over, is_gone = row
        if number in self._held or not (is_over or is_gone):
            return False
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock($1)", (schema.LOCK,))
            taken = connection.execute(TAKE, (number, before, epoch, LEASE, is_gone))
        return taken.rowcount == 1

    def _renew(self, connection: Connection) -> None:
        held = [
            (number, epoch, connection.execute(RENEW, (number, epoch, LEASE)).rowcount == 1)
            for number, epoch in self._held.items()
        ]
        self._watch.touched()
        for number, epoch, is_ours in held:
            if not is_ours and number == self.number:
                raise FencedError(f"somebody else has taken the number {number} of this process")
            if not is_ours:
                _unlock(connection, epoch)
                del self._held[number]

    def _abandoned(self, connection: Connection) -> list[int]:
        if not self._watch.may_judge:
            return []
        dead = []
        for row in connection.execute(OTHERS, (schema.LOCK,)).fetchall():
            number, _, is_over, is_gone = row
            if number in self._held or not (is_over or is_gone):
                continue
            epoch = _drawn()
            _lock(connection, epoch)
            if self._takes(connection, epoch, number, row):
                self._held[number] = epoch
                dead.append(int(number))
            else:
                _unlock(connection, epoch)
        return dead

    def _leave(self, connection: Connection, number: int) -> None:
        epoch = self._held[number]
        connection.execute("DELETE FROM instance WHERE number = $1 AND epoch = $2", (number, epoch))
        _unlock(connection, epoch)
        del self._held[number]


def _end_leases(line: DatabaseConnection, held: Mapping[int, int]) -> None:
    """End these leases, if the database can be reached, so that no process has to wait for their end."""
    if not line.is_new:
        with suppress(psycopg.Error):
            for one in held.items():
                line.connection().execute(RENEW, (*one, 0.0))


async def _sends(socket: int, until: float) -> bool:
    """Return true when there is something to read, false at the time `until`; close this copy of the socket.

    The connection itself may be closed meanwhile, and its number given to another file.
    """
    loop = asyncio.get_running_loop()
    spoke = asyncio.Event()
    loop.add_reader(socket, spoke.set)
    try:
        async with asyncio.timeout_at(until):
            await spoke.wait()
    except TimeoutError:
        return False
    finally:
        loop.remove_reader(socket)
        os.close(socket)
    return True


def _drawn() -> int:
    """Return a new random epoch. A counter might repeat values on a standby that takes over and lacks the last ones."""
    return 1 + secrets.randbelow((1 << 31) - 1)


def _lock(connection: Connection, epoch: int) -> None:
    """Lock the epoch; shared, because for the server an earlier connection of ours may not have ended yet."""
    connection.execute("SELECT pg_advisory_lock_shared($1::int, $2::int)", (schema.LOCK, epoch))


def _unlock(connection: Connection, epoch: int) -> None:
    connection.execute("SELECT pg_advisory_unlock_shared($1::int, $2::int)", (schema.LOCK, epoch))


# Exclusive access to a schema: no process serves from it meanwhile.
#
# A copy first takes an advisory lock for that purpose, and then checks whether a process has the lock of its epoch. A process
# first takes its own lock, and then checks the other one. So at least one of them detects the other. A process that has just
# lost its connection has no lock and still serves, so all leases must be over too. A process that comes back after that is
# fenced.

TIMEOUT: Final = 2.0
POLL_INTERVAL: Final = 0.05
"""Seconds to wait for processes that have just ended, and between two checks."""

TAKEN: Final = "SELECT pg_try_advisory_lock($1::int, $2::int)"

FENCE: Final = "UPDATE instance SET epoch = 0, until = 'epoch'"


def see_that_it_is_nobodys(connection: Connection) -> None:
    """Check that no process has exclusive access to the store, and that it is complete and on the schema of this program.

    Raises:
        StoreError: another process copies or migrates it now.
        ForeignStoreError: it is an incomplete copy, or another version has changed its schema.

    """
    got = connection.execute(
        "SELECT pg_try_advisory_lock_shared($1::int, $2::int)", (schema.LOCK, schema.GATE)
    ).fetchone()
    if got is None or not got[0]:
        raise StoreError("it is being copied; serve when that is done")
    connection.execute(
        "SELECT pg_advisory_unlock_shared($1::int, $2::int)", (schema.LOCK, schema.GATE)
    )
    if (source := schema.copied_from(connection)) is not None:
        raise ForeignStoreError(unfinished_copy(source))
    done, known = schema.version(connection) or 0, schema.newest()
    if done != known:
        raise ForeignStoreError(unlike(done, known))


def have_alone(connection: Connection, name: str) -> None:
    """Take exclusive access to the store, called `name` in errors, for as long as this connection lasts.

    Raises:
        StoreError: a process serves from it, or another one has exclusive access.

    """
    lock = schema.LOCK, schema.GATE
    _patiently(connection, TAKEN, lock, f"{name}: somebody copies it just now")
    serves = f"{name}: a process serves from it; stop it first"
    _patiently(connection, schema.NOBODY_WRITES, lock, serves)
    if (schema.version(connection) or 0) >= schema.OF_LEASES:
        _patiently(connection, schema.OVER, (), serves, TIMEOUT + LEASE)
        connection.execute(FENCE)


def _patiently(
    connection: Connection,
    question: str,
    values: Sequence[object],
    sentence: str,
    patience: float = TIMEOUT,
) -> None:
    """Ask until the answer is yes: the server notices the end of a process with a short delay."""
    patient_until = time.monotonic() + patience
    while (row := connection.execute(question, values).fetchone()) is None or not row[0]:
        if time.monotonic() > patient_until:
            raise StoreError(sentence)
        time.sleep(POLL_INTERVAL)


# A process that hangs within a batch keeps the writer's lock: the processes that wait for it end its connection.
#
# The server cannot detect that by itself. Statements are sent without waiting for answers, and between two of them its limits
# for idle transactions and for statements do not run. But it records when it last received something on a connection.

log = structlog.get_logger(__name__)

HANGS: Final = 4.0
"""Seconds of silence while the server waits for a statement after which a process counts as hanging. Waits for its lock are longer."""

CUT: Final = """
    SELECT pg_terminate_backend(a.pid, 5000) FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
    WHERE l.locktype = 'advisory' AND l.granted AND l.classid = 0 AND l.objid = $1::oid AND l.objsubid = 1
        AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
        AND a.usename = current_user AND a.application_name = current_setting('application_name')
        AND a.wait_event_type = 'Client' AND a.query_start < clock_timestamp() - make_interval(secs => $2::float8)
"""
"""It ends only a process like this one, by role and name: a psql is left alone, and other roles cannot be ended."""


@contextmanager
def cutting_off(connection: Connection) -> Iterator[None]:
    """If a wait for the lock in the body fails, end the connection of a process that hangs with it."""
    try:
        yield
    except LockNotAvailable:
        cut_off(connection)
        raise


def cut_off(connection: Connection) -> bool:
    """End the connection of the process that holds the lock and hangs; return whether there was one.

    Its batch is rolled back. When it continues, it detects that as any other loss of its connection.
    """
    found = connection.execute(CUT, (schema.LOCK, HANGS)).fetchall()
    if found:
        log.warning("store.writer_hung", seconds=HANGS)
    return bool(found)


# The rows of `writer`: the last batch of each process. Rows of processes that are long gone are not needed any more.

GONE: Final = 30
"""Days without a batch after which a row is removed: its process has long found out whether that batch was committed."""


def sweep(connection: Connection) -> None:
    """Remove the rows of processes that are long gone, unless another process writes now."""
    with connection.transaction():
        taken = connection.execute(
            "SELECT pg_try_advisory_xact_lock($1)", (schema.LOCK,)
        ).fetchone()
        if taken is not None and taken[0]:
            connection.execute(
                "DELETE FROM writer WHERE seen < now() - make_interval(days => $1::integer)",
                (GONE,),
            )
