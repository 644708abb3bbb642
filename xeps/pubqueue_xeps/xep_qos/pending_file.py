"""The state that survives the process: messages without a final answer, and messages stored for senders.

All of it is in memory, and written through to a SQLite file if there is one. A write returns when it is on disk;
concurrent writes share one commit, in a thread of their own, in order. Only one process can have the file open.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import TYPE_CHECKING, Final, TypeVar

from pubqueue_xeps.errors import PendingFailed
from pubqueue_xeps.log import log
from pubqueue_xeps.xep_qos.levels import Level, Step

if TYPE_CHECKING:
    from pathlib import Path

APPLICATION: Final = 0x71_6F_73_31
"""Marks a SQLite file as one of these; the last byte is the version of its tables."""

TABLES: Final = """
CREATE TABLE outgoing (
    number INTEGER PRIMARY KEY, sender TEXT NOT NULL, peer TEXT NOT NULL, msg_id TEXT NOT NULL, iq_id TEXT NOT NULL,
    deliver_id TEXT NOT NULL, level TEXT NOT NULL, step TEXT NOT NULL, since REAL NOT NULL, message TEXT NOT NULL,
    UNIQUE (peer, msg_id)
) STRICT;
CREATE TABLE held (
    sender TEXT NOT NULL, msg_id TEXT NOT NULL, iq_id TEXT NOT NULL, digest TEXT NOT NULL, byte_count INTEGER NOT NULL,
    message TEXT, until REAL NOT NULL, PRIMARY KEY (sender, msg_id)
) STRICT, WITHOUT ROWID;
"""


@dataclass(slots=True)
class Outgoing:
    """A message that is being sent; `sender` is the full JID under which its IQs were sent."""

    number: int
    sender: str
    peer: str
    msg_id: str
    iq_id: str
    deliver_id: str
    level: Level
    step: Step
    since: float
    message: str


@dataclass(slots=True)
class Held:
    """A message stored for a sender (a full JID) until `until`; `message` is None once it is delivered."""

    sender: str
    msg_id: str
    iq_id: str
    digest: str
    byte_count: int
    message: str | None
    until: float


SENT: Final = attrgetter(*(field.name for field in fields(Outgoing)))
KEPT: Final = attrgetter(*(field.name for field in fields(Held)))
"""The values of a row; they are in the order of the columns."""

Row = TypeVar("Row", Outgoing, Held)
Statement = tuple[str, tuple[object, ...]]


class PendingFile:
    """The rows and their file; without `path` they are lost with the process.

    Raises PendingFailed if the file cannot be opened, belongs to another program, or is in use.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = None if path is None else str(path)
        self.outgoing: dict[tuple[str, str], Outgoing] = {}
        self.held: dict[tuple[str, str], Held] = {}
        """Messages that wait for their `deliver`, oldest first."""
        self.ended: dict[tuple[str, str], Held] = {}
        """Messages that were delivered, oldest first."""
        self._pending_writes: list[tuple[Statement, asyncio.Future[None]]] = []
        self._writing: asyncio.Task[None] | None = None
        self._database: sqlite3.Connection | None = None
        if path is not None:
            self._database = _open(path)
            self._thread = ThreadPoolExecutor(1, "pubqueue pending")
            for sent in _rows(self._database, "outgoing", Outgoing):
                try:
                    sent.level, sent.step = Level(sent.level), Step(sent.step)
                except ValueError as error:
                    self.close()
                    why = f"message {sent.number} has no level or step of this version: {error}"
                    raise _unusable(path, why) from None
                self.outgoing[sent.peer, sent.msg_id] = sent
            for kept in sorted(_rows(self._database, "held", Held), key=lambda row: row.until):
                self.remember(kept)
        self._numbers = max((row.number for row in self.outgoing.values()), default=0)

    @property
    def is_lasting(self) -> bool:
        """Whether the rows survive the process."""
        return self.path is not None

    def next_number(self) -> int:
        """Return a number above all others."""
        self._numbers += 1
        return self._numbers

    def resource(self, account: str) -> str | None:
        """Return the resource of an account's latest pending message, or None if none is pending."""
        found = [row for row in self.outgoing.values() if row.sender.startswith(f"{account}/")]
        return max(found, key=lambda row: row.number).sender.partition("/")[2] if found else None

    async def keep(self, row: Outgoing | Held) -> None:
        """Write a new or changed row; it is on disk when this returns. Raises PendingFailed."""
        if isinstance(row, Outgoing):
            self.outgoing[row.peer, row.msg_id] = row
        else:
            self.remember(row)
        if self.is_lasting:
            await self._write(_put(row))

    def remember(self, row: Held) -> None:
        """Set a row of another sender in memory only, replacing the earlier one."""
        key = row.sender, row.msg_id
        self.held.pop(key, None)
        self.ended.pop(key, None)
        rows = self.ended if row.message is None else self.held
        rows[key] = row

    def drop(self, *rows: Outgoing | Held) -> None:
        """Remove rows; they are removed from disk soon, and a kill before that only means that they are answered as before."""
        for row in rows:
            if isinstance(row, Outgoing):
                self.outgoing.pop((row.peer, row.msg_id), None)
                gone: Statement = "DELETE FROM outgoing WHERE number = ?", (row.number,)
            else:
                self.held.pop((row.sender, row.msg_id), None)
                self.ended.pop((row.sender, row.msg_id), None)
                gone = "DELETE FROM held WHERE sender = ? AND msg_id = ?", (row.sender, row.msg_id)
            if self.is_lasting:
                self._write(gone).add_done_callback(_log_failure)

    def close(self) -> None:
        """Write the remaining changes, and close the file."""
        database, self._database = self._database, None
        if database is None:
            return
        self._thread.shutdown()
        left, self._pending_writes = self._pending_writes, []
        self._finish(left, commit(database, [statement for statement, _ in left]))
        database.close()

    def _write(self, statement: Statement) -> asyncio.Future[None]:
        loop = asyncio.get_running_loop()
        written: asyncio.Future[None] = loop.create_future()
        if self._database is None:
            written.set_exception(PendingFailed(f"{self.path} is closed."))
            return written
        self._pending_writes.append((statement, written))
        if self._writing is None:
            self._writing = loop.create_task(self._write_all(), name="pubqueue pending")
        return written

    async def _write_all(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._pending_writes and self._database is not None:
                batch, self._pending_writes = self._pending_writes, []
                statements = [statement for statement, _ in batch]
                work = loop.run_in_executor(self._thread, commit, self._database, statements)
                self._finish(batch, await work)
        finally:
            self._writing = None

    def _finish(
        self, batch: list[tuple[Statement, asyncio.Future[None]]], error: sqlite3.Error | None
    ) -> None:
        for _, written in batch:
            if written.done():
                continue
            if error is None:
                written.set_result(None)
            else:
                written.set_exception(PendingFailed(f"{self.path} cannot be written: {error}."))


def _open(path: str | Path) -> sqlite3.Connection:
    try:
        # it contains messages: only this account may read it and the files that SQLite puts next to it
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        database = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
        try:
            why = _prepare(database)
        except BaseException:
            database.close()
            raise
    except OSError as error:
        why = error.strerror
    except sqlite3.Error as error:
        why = "another process has it open" if "locked" in str(error) else str(error)
    else:
        if why is None:
            return database
        database.close()
    raise _unusable(path, why)


def _unusable(path: str | Path, why: str | None) -> PendingFailed:
    return PendingFailed(f"The file of pending messages {path} cannot be used: {why}.")


def _prepare(database: sqlite3.Connection) -> str | None:
    """Lock the file for this process; return why it cannot be used, or None."""
    for setting in ("locking_mode = EXCLUSIVE", "journal_mode = WAL", "synchronous = FULL"):
        database.execute(f"PRAGMA {setting}")
    database.execute("BEGIN IMMEDIATE")  # with the locking mode: until the file is closed
    (found,) = database.execute("PRAGMA application_id").fetchone()
    (tables,) = database.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if found != APPLICATION and (found or tables):
        database.execute("ROLLBACK")
        return "it belongs to another program or another version"
    if not tables:
        for statement in TABLES.split(";")[:-1]:
            database.execute(statement)
        database.execute(f"PRAGMA application_id = {APPLICATION}")
    database.execute("COMMIT")
    return None


def _rows(database: sqlite3.Connection, table: str, kind: type[Row]) -> list[Row]:
    columns = ", ".join(field.name for field in fields(kind))
    return [kind(*row) for row in database.execute(f"SELECT {columns} FROM {table}")]  # noqa: S608 - our names


def _put(row: Outgoing | Held) -> Statement:
    table, values = ("outgoing", SENT(row)) if isinstance(row, Outgoing) else ("held", KEPT(row))
    marks = ", ".join("?" * len(values))
    return f"INSERT OR REPLACE INTO {table} VALUES ({marks})", values  # noqa: S608 - as above


def commit(database: sqlite3.Connection, statements: list[Statement]) -> sqlite3.Error | None:
    """Write all changes or none; return why nothing was written, or None."""
    try:
        database.execute("BEGIN IMMEDIATE")
        try:
            for statement, values in statements:
                database.execute(statement, values)
            database.execute("COMMIT")
        except BaseException:
            database.execute("ROLLBACK")
            raise
    except sqlite3.Error as error:
        return error
    return None


def _log_failure(written: asyncio.Future[None]) -> None:
    if not written.cancelled() and (error := written.exception()) is not None:
        log.error("pending.failed", why=str(error))
