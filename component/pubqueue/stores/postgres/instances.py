"""Who serves from a database: each process holds an advisory lock, on a connection of its own, as long as it lives.

PostgreSQL takes the lock away with the connection. The row of the number stays until its process has left in order: so one
that is there, and not locked, tells of a process that died. A process that only lost its connection locks its numbers anew;
should another have spoken for it meanwhile, some deliveries come twice, under their tokens.

On the same connection it hears of the batches of others, each of which notifies when it is committed.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from pubqueue.app.ports import Instance, StoreError
from pubqueue.stores.postgres.alone import see_that_it_is_nobodys
from pubqueue.stores.postgres.line import Line
from pubqueue.stores.postgres.schema import LOCK

if TYPE_CHECKING:
    from psycopg import Connection

MOST: Final = 1024
"""Processes on one database, at most."""

CHANNEL: Final = "pubqueue"
"""Where a process that has written says who it is, by its name."""

NOBODY: Final = -1


class Instances:
    """Implements `pubqueue.app.ports.Instances` by advisory locks and a table.

    `name` is what this process is told from others by; `number` is its own, NOBODY before it has one.
    """

    def __init__(self, conninfo: str, name: str) -> None:
        self.number = NOBODY
        self._conninfo = conninfo
        self._name = name
        self._line: Line | None = None
        self._locked_on: Connection | None = None
        self._held: set[int] = set()

    async def enter(self) -> Instance:
        """Take the first number that no living process has.

        Raises:
            StoreError: all are taken, or the database cannot be reached.

        """
        line = self._line = self._line or Line(self._conninfo)
        found = await line.run(lambda: line.tried(lambda: self._enter(self._ready(line))))
        self.number = found.number
        return found

    async def abandoned(self) -> list[int]:
        """Take the numbers of processes that died."""
        line = self._line = self._line or Line(self._conninfo)
        return await line.run(lambda: line.tried(lambda: self._abandoned(self._ready(line))))

    async def leave(self, number: int) -> None:
        """Give a number back: its row is removed."""
        line = self._line
        if line is not None and number in self._held:
            await line.run(lambda: line.tried(lambda: self._leave(self._ready(line), number)))
            if number == self.number:
                self.number = NOBODY

    async def hear(self, patience: float) -> None:
        """Return when another process has said that it wrote, or may have said so, or so many seconds later."""
        loop = asyncio.get_running_loop()
        until = loop.time() + patience
        line = self._line = self._line or Line(self._conninfo)
        try:
            while (
                socket := await line.run(lambda: line.tried(lambda: self._quiet(line)))
            ) is not None:
                if not await _speaks(socket, until):
                    return
        except StoreError:
            await asyncio.sleep(until - loop.time())

    async def close(self) -> None:
        """Let go of all numbers, as if the process had died."""
        line, self._line = self._line, None
        self.number = NOBODY
        self._held.clear()
        self._locked_on = None
        if line is not None:
            await line.close()

    # --- on the thread ---

    def _ready(self, line: Line) -> Connection:
        """Return the connection; on a new one all that was held is locked anew, and it listens."""
        connection = line.connection()
        if connection is not self._locked_on:
            connection.execute(f"LISTEN {CHANNEL}".encode())
            self._held = {number for number in self._held if _locks(connection, number)}
            self._locked_on = connection
        return connection

    def _quiet(self, line: Line) -> int | None:
        """Return the socket to wait at, None if another process has spoken; before the connection was made it may have."""
        before = self._locked_on
        connection = self._ready(line)
        said = [word.payload for word in connection.notifies(timeout=0)]
        heard = connection is not before or any(name != self._name for name in said)
        return None if heard else connection.fileno()

    def _enter(self, connection: Connection) -> Instance:
        for number in range(MOST):
            if number not in self._held and _locks(connection, number):
                try:
                    see_that_it_is_nobodys(connection)
                except StoreError:
                    _unlock(connection, number)
                    raise
                self._held.add(number)
                made = connection.execute(
                    "INSERT INTO instance VALUES ($1) ON CONFLICT DO NOTHING", (number,)
                )
                return Instance(number, died=made.rowcount == 0)
        raise StoreError(f"{MOST} processes serve from this database already")

    def _abandoned(self, connection: Connection) -> list[int]:
        there = connection.execute("SELECT number FROM instance ORDER BY number").fetchall()
        dead = []
        for (number,) in there:
            if number in self._held or not _locks(connection, number):
                continue
            if _is_there(connection, number):
                self._held.add(number)
                dead.append(int(number))
            else:
                _unlock(connection, number)  # it has left between the two looks
        return dead

    def _leave(self, connection: Connection, number: int) -> None:
        if number in self._held:
            connection.execute("DELETE FROM instance WHERE number = $1", (number,))
            _unlock(connection, number)
            self._held.discard(number)


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


def _locks(connection: Connection, number: int) -> bool:
    row = connection.execute(
        "SELECT pg_try_advisory_lock($1::int, $2::int)", (LOCK, number)
    ).fetchone()
    return row is not None and bool(row[0])


def _unlock(connection: Connection, number: int) -> None:
    connection.execute("SELECT pg_advisory_unlock($1::int, $2::int)", (LOCK, number))


def _is_there(connection: Connection, number: int) -> bool:
    found = connection.execute("SELECT 1 FROM instance WHERE number = $1", (number,))
    return found.fetchone() is not None
