"""Who serves from a database: each process has a row with its number, the epoch under which it has it, and a lease.

The lease runs by the clock of the database and is renewed once a second. A shared advisory lock under the epoch, on the
same connection, goes with the process or its machine, so that others need not wait for the end of the lease. A number whose
process does not live is taken by giving it another epoch, while nobody writes; and each batch sees with its first answer
whether the epoch is still its own (`store`). So a process that only seemed to be dead commits nothing more, and enters
again.

On the same connection a process hears of the batches of others, each of which notifies when it is committed.
"""

from __future__ import annotations

import asyncio
import secrets
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import psycopg

from pubqueue.app.store.ports import FencedError, Instance, StoreError
from pubqueue.stores.postgres.connection import DatabaseConnection
from pubqueue.stores.postgres.instances.exclusive_access import see_that_it_is_nobodys
from pubqueue.stores.postgres.locks import LOCK
from pubqueue.stores.sql.leases import LEASE, LeaseWatch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from psycopg import Connection

MAX_INSTANCES: Final = 1024
"""Processes on one database, at most."""

CHANNEL: Final = "pubqueue"
"""Where a process that has written says who it is, by its name."""

NOBODY: Final = -1

MODEST: Final = f"LISTEN {CHANNEL}; SET synchronous_commit = off"
"""What a loss of power takes of these rows nobody misses: a process without its row enters again."""

OTHERS: Final = """
    SELECT number, epoch, until <= clock_timestamp(), NOT EXISTS (
        SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2 AND granted
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND classid::bigint = $1 AND objid::bigint = epoch
    ) FROM instance ORDER BY number
"""
"""Of each process whether its lease is over, and whether it has no connection."""

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
    """Implements `pubqueue.app.store.ports.Instances` by rows with leases.

    `name` is what this process is told from others by; `number` is its own, NOBODY before it has one.
    """

    def __init__(self, conninfo: str, name: str) -> None:
        self.number = NOBODY
        self._conninfo = conninfo
        self._name = name
        self._line: DatabaseConnection | None = None
        self._listens_on: Connection | None = None
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
            ForeignStoreError: what is there is half a copy.
            StoreError: all are taken, somebody copies the store, or the database cannot be reached.

        """
        line = self._line = self._line or DatabaseConnection(self._conninfo)
        found = await line.run(lambda: line.tried(lambda: self._enter(self._ready(line))))
        self.number = found.number
        self._mine = found.number, self._held[found.number]
        return found

    async def renew(self) -> None:
        """Renew the lease of this process, and those of the numbers that it has taken.

        Raises:
            FencedError: somebody else has taken its number.
            StoreError: the database cannot be reached.

        """
        if (line := self._line) is not None and self._held:
            await line.run(lambda: line.tried(lambda: self._renew(self._ready(line))))

    async def abandoned(self) -> list[int]:
        """Take the numbers of processes that died."""
        line = self._line = self._line or DatabaseConnection(self._conninfo)
        return await line.run(lambda: line.tried(lambda: self._abandoned(self._ready(line))))

    async def leave(self, number: int) -> None:
        """Give a number back: its row is removed."""
        line = self._line
        if line is not None and number in self._held:
            await line.run(lambda: line.tried(lambda: self._leave(self._ready(line), number)))
            if number == self.number:
                self.number, self._mine = NOBODY, None

    async def hear(self, patience: float) -> None:
        """Return when another process has said that it wrote, or may have said so, or so many seconds later."""
        loop = asyncio.get_running_loop()
        until = loop.time() + patience
        line = self._line = self._line or DatabaseConnection(self._conninfo)
        try:
            while (
                socket := await line.run(lambda: line.tried(lambda: self._quiet(line)))
            ) is not None:
                if not await _speaks(socket, until):
                    return
        except StoreError:
            await asyncio.sleep(until - loop.time())

    def forget(self) -> None:
        """Have no number: the store is opened. What is still under way while it is closed stays fenced."""
        self._mine = None

    async def close(self) -> None:
        """Let go of all numbers, as if the process had died."""
        line, self._line = self._line, None
        if line is not None:
            held, self._held = self._held, {}
            ending = asyncio.create_task(line.run(lambda: _end_leases(line, held)))
            await asyncio.sleep(
                0
            )  # it has its place before the end of the line, which waits for nobody for long
            await line.close()
            ending.cancel()
            await asyncio.gather(ending, return_exceptions=True)
        self.number = NOBODY
        self._listens_on = None

    # --- on the thread ---

    def _ready(self, line: DatabaseConnection) -> Connection:
        """Return the connection; a new one listens, and has the locks of what is held."""
        connection = line.connection()
        if connection is not self._listens_on:
            connection.execute(MODEST.encode(), prepare=False)
            for epoch in self._held.values():
                _lock(connection, epoch)
            self._watch.touched(anew=self._listens_on is not None)
            self._listens_on = connection
        return connection

    def _quiet(self, line: DatabaseConnection) -> int | None:
        """Return the socket to wait at, None if another process has spoken; before the connection was made it may have."""
        before = self._listens_on
        connection = self._ready(line)
        said = [word.payload for word in connection.notifies(timeout=0)]
        heard = connection is not before or any(name != self._name for name in said)
        return None if heard else connection.fileno()

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
        there = {row[0]: row for row in connection.execute(OTHERS, (LOCK,)).fetchall()}
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
        """Take a number for this epoch, if nobody has it or whoever had it does not live; say whether that succeeded."""
        if row is None:
            return connection.execute(MAKE, (number, epoch, LEASE)).rowcount == 1
        _, before, is_over, is_gone = row
        if number in self._held or not (is_over or is_gone):
            return False
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock($1)", (LOCK,))
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
        for row in connection.execute(OTHERS, (LOCK,)).fetchall():
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
    """Have nobody wait for the end of these leases, if the database is there."""
    if not line.is_new:
        with suppress(psycopg.Error):
            for one in held.items():
                line.connection().execute(RENEW, (*one, 0.0))


async def _speaks(socket: int, until: float) -> bool:
    """Return when there is something to be read, True, or when it is so late, False."""
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
    return True


def _drawn() -> int:
    """Return a new epoch. It is drawn: a count might begin again on a standby that takes over and lacks the last ones."""
    return 1 + secrets.randbelow((1 << 31) - 1)


def _lock(connection: Connection, epoch: int) -> None:
    """Lock it; shared, for an earlier connection of ours may not be over yet to the server."""
    connection.execute("SELECT pg_advisory_lock_shared($1::int, $2::int)", (LOCK, epoch))


def _unlock(connection: Connection, epoch: int) -> None:
    connection.execute("SELECT pg_advisory_unlock_shared($1::int, $2::int)", (LOCK, epoch))
