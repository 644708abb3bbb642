"""Who serves from a database: each process holds an advisory lock, on a connection of its own, as long as it lives.

PostgreSQL takes the lock away with the connection. The row of the number stays until its process has left in order: so one
that is there, and not locked, tells of a process that died. A process that only lost its connection locks its numbers anew;
should another have spoken for it meanwhile, some deliveries come twice, under their tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.app.ports import Instance, StoreError
from pubqueue.stores.postgres.alone import is_somebodys
from pubqueue.stores.postgres.line import Line
from pubqueue.stores.postgres.schema import LOCK

if TYPE_CHECKING:
    from psycopg import Connection

MOST: Final = 1024
"""Processes on one database, at most."""


class Instances:
    """Implements `pubqueue.app.ports.Instances` by advisory locks and a table."""

    def __init__(self, conninfo: str) -> None:
        self._conninfo = conninfo
        self._line: Line | None = None
        self._locked_on: Connection | None = None
        self._held: set[int] = set()

    async def enter(self) -> Instance:
        """Take the first number that no living process has.

        Raises:
            StoreError: all are taken, or the database cannot be reached.

        """
        line = self._line = self._line or Line(self._conninfo)
        return await line.run(lambda: line.tried(lambda: self._enter(self._ready(line))))

    async def abandoned(self) -> list[int]:
        """Take the numbers of processes that died."""
        line = self._line = self._line or Line(self._conninfo)
        return await line.run(lambda: line.tried(lambda: self._abandoned(self._ready(line))))

    async def leave(self, number: int) -> None:
        """Give a number back: its row is removed."""
        line = self._line
        if line is not None and number in self._held:
            await line.run(lambda: line.tried(lambda: self._leave(self._ready(line), number)))

    async def close(self) -> None:
        """Let go of all numbers, as if the process had died."""
        line, self._line = self._line, None
        self._held.clear()
        self._locked_on = None
        if line is not None:
            await line.close()

    # --- on the thread ---

    def _ready(self, line: Line) -> Connection:
        """Return the connection; on a new one all that was held is locked anew."""
        connection = line.connection()
        if connection is not self._locked_on:
            self._held = {number for number in self._held if _locks(connection, number)}
            self._locked_on = connection
        return connection

    def _enter(self, connection: Connection) -> Instance:
        for number in range(MOST):
            if number not in self._held and _locks(connection, number):
                if is_somebodys(connection):
                    _unlock(connection, number)
                    raise StoreError("it is being copied; serve when that is done")
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
