"""SQLite's end of a copy."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Final

from pubqueue.engine.ports import StoreError
from pubqueue.stores.copying.copy import (
    AT_ONCE,
    BACKUP,
    BYTES_AT_ONCE,
    COPYING,
    KEYS,
    RENAMED,
    WAITING,
    DatabaseTable,
    RefusedError,
)
from pubqueue.stores.reading_errors import in_the_way
from pubqueue.stores.sql.session import MOST_IN_ROW, PAYLOAD
from pubqueue.stores.sqlite import SqliteStore
from pubqueue.stores.sqlite.connection import MINE, close_to_others, create
from pubqueue.stores.sqlite.instances import alone, number_file, numbered
from pubqueue.stores.sqlite.schema import APPLICATION_ID, HALF_COPIED, check_current, prepare

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from pubqueue.engine.ports import Store
    from pubqueue.stores.copying.copy import Row, Source


KINDS: Final = {"INTEGER": "integer", "TEXT": "text", "BLOB": "bytes", "REAL": "real"}

BYTES_OF_A_COMMIT: Final = 64 << 20

LARGE: Final = "large_payload"
"""The table of large payloads of SQLite, which are copied as if they were in the rows of their items."""

GONE: Final = "large_payload_gone"
"""The table of those whose items are gone; they are not copied."""


class SqlitePlace:
    """Implements both ends on one connection."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.name = f"sqlite://{path.resolve()}"
        self._path = path
        self._connection = connection

    # --- reading ---

    def tables(self) -> dict[str, DatabaseTable]:
        """Return its tables, by name."""
        found = self._connection.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
        )
        return {
            name: self._table(name)
            for (name,) in found.fetchall()
            if name not in (BACKUP, COPYING, LARGE, GONE)
        }

    def _table(self, name: str) -> DatabaseTable:
        # place, name, type, not null, default, place in the primary key, 2 or 3 if it is computed
        info = self._connection.execute(f"PRAGMA table_xinfo({_quoted(name)})").fetchall()
        kinds = {_common(name, row[1]): KINDS.get(row[2], row[2]) for row in info if not row[6]}
        key = sorted((row[5], _common(name, row[1])) for row in info if row[5])
        refers = self._connection.execute(f"PRAGMA foreign_key_list({_quoted(name)})").fetchall()
        of_key = KEYS.get(name) or tuple(column for _, column in key)
        return DatabaseTable(name, kinds, of_key, frozenset(row[2] for row in refers))

    def count(self, table: DatabaseTable) -> int:
        """Return how many rows a table has."""
        (count,) = self._connection.execute(
            f"SELECT count(*) FROM {_quoted(table.name)}"  # noqa: S608  # names of the schema
        ).fetchone()
        return int(count)

    def rows(self, table: DatabaseTable) -> Generator[Row, None, None]:
        """Yield all rows in the order of their key, one by one."""
        columns, key = (_listed(table.name, names) for names in (table.columns, table.key))
        # an older backup has no such table
        if _has_large(table) and self._connection.execute(f"PRAGMA table_info({LARGE})").fetchone():
            columns = columns.replace(_quoted("payload"), PAYLOAD)
        statement = f"SELECT {columns} FROM {_quoted(table.name)} i ORDER BY {key}"  # noqa: S608  # names of the schema
        with closing(self._connection.cursor()) as cursor:
            yield from cursor.execute(statement)

    def last_numbers(self) -> dict[str, int]:
        """Return the last number that was used, for each table whose numbers are never reused."""
        return dict(self._connection.execute("SELECT name, seq FROM sqlite_sequence").fetchall())

    def died(self) -> list[int]:
        """Return the numbers of processes that have ended without leaving: no other process is alive."""
        return numbered(self._path)

    # --- writing ---

    def copied_from(self) -> str | None:
        """Return the source of the unfinished copy in it, None if there is none."""
        if _application(self._connection) != HALF_COPIED:
            return None
        (source,) = self._connection.execute(f"SELECT source FROM {COPYING}").fetchone()  # noqa: S608  # ours
        return str(source)

    def is_empty(self) -> bool:
        """Return whether it has no contents; the next numbers of sequences do not count."""
        tables = self.tables()
        tables.pop("sequence", None)
        return not any(self.count(table) for table in tables.values())

    def begin(self, source: str) -> None:
        """Mark it as the unfinished copy of that store, and empty it."""
        run = self._connection.execute
        run("BEGIN IMMEDIATE")
        run(f"DROP TABLE IF EXISTS {COPYING}")
        run(f"CREATE TABLE {COPYING} (source TEXT NOT NULL) STRICT")
        run(f"INSERT INTO {COPYING} VALUES (?)", (source,))  # noqa: S608  # ours
        run(f"PRAGMA application_id = {HALF_COPIED}")
        run("COMMIT")
        prepare(self._connection, self._path, application=HALF_COPIED)
        close_to_others(self._path)
        # Without foreign keys and triggers SQLite drops tables' pages, not row by row.
        run("PRAGMA foreign_keys = OFF")
        run("BEGIN IMMEDIATE")
        triggers = run("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            run(f"DROP TRIGGER {name}")
        for table in (*self.tables(), LARGE, GONE, "sqlite_sequence"):
            run(f"DELETE FROM {_quoted(table)}")  # noqa: S608  # names of the schema
        for _, made in triggers:
            run(made)
        run("COMMIT")
        run("PRAGMA foreign_keys = ON")
        run("PRAGMA synchronous = NORMAL")  # rows lost in a power failure are copied again

    def fill(self, table: DatabaseTable, rows: Iterable[Row]) -> None:
        """Write these rows, some at a time, so that neither memory nor the log grows with their number."""
        columns = _listed(table.name, table.columns)
        values = ", ".join("?" for _ in table.columns)
        statement = f"INSERT INTO {_quoted(table.name)} ({columns}) VALUES ({values})"  # noqa: S608  # names of the schema
        waiting = 0
        self._connection.execute("BEGIN IMMEDIATE")
        for batch, byte_count in _batches(rows):
            if _has_large(table):
                self._put_apart(table, batch)
            self._connection.executemany(statement, batch)
            waiting += byte_count
            if waiting > BYTES_OF_A_COMMIT:
                waiting = 0
                self._connection.execute("COMMIT")
                self._connection.execute("BEGIN IMMEDIATE")
        self._connection.execute("COMMIT")

    def _put_apart(self, table: DatabaseTable, rows: list[Row]) -> None:
        """Write large payloads, and leave empty ones in their rows."""
        seq, at = map(table.columns.index, ("seq", "payload"))
        for number, row in enumerate(rows):
            if len(row[at]) > MOST_IN_ROW:
                self._connection.execute(f"INSERT INTO {LARGE} VALUES (?, ?)", (row[seq], row[at]))  # noqa: S608  # ours
                rows[number] = (*row[:at], b"", *row[at + 1 :])

    def finish(self, last: Mapping[str, int], died: Sequence[int]) -> None:
        """Let numbers continue, note the processes that died, and remove the mark."""
        for number in {*numbered(self._path), *died}:
            file = number_file(self._path, number)
            file.touch(MINE) if number in died else file.unlink()
        run = self._connection.execute
        run("PRAGMA synchronous = FULL")
        run("BEGIN IMMEDIATE")
        for table in self._never_again():
            highest = f"SELECT ?, max(?, (SELECT coalesce(max(id), 0) FROM {_quoted(table)}))"  # noqa: S608  # names of the schema
            run("DELETE FROM sqlite_sequence WHERE name = ?", (table,))
            run(f"INSERT INTO sqlite_sequence (name, seq) {highest}", (table, last.get(table, 0)))
        run(f"DROP TABLE {COPYING}")
        run(f"PRAGMA application_id = {APPLICATION_ID}")
        run("COMMIT")

    def _never_again(self) -> list[str]:
        """Return the tables whose numbers are never reused."""
        found = self._connection.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql LIKE '%AUTOINCREMENT%'"
        )
        return [name for (name,) in found.fetchall()]


@contextmanager
def source(store: Store) -> Iterator[SqlitePlace]:
    """Open a file to copy from: no other process writes to it, and it is read from one snapshot."""
    path = _path(store)
    if not path.is_file() or not path.stat().st_size:
        raise RefusedError(f"{path}: there is no store")
    with alone(path), connected(path) as connection:
        prepare(connection, path)
        connection.execute(f"PRAGMA busy_timeout = {round(WAITING * 1000)}")
        connection.execute("BEGIN IMMEDIATE")
        yield SqlitePlace(path, connection)


class _Running(SqlitePlace):
    """A file that other processes may write to meanwhile."""

    def __init__(self, path: Path, connection: sqlite3.Connection, before: Sequence[int]) -> None:
        super().__init__(path, connection)
        self._before = before

    def died(self) -> list[int]:
        """Return the numbers of all processes: for a service started from the copy, they have all died."""
        return sorted({*self._before, *super().died()})


@contextmanager
def running(store: Store) -> Iterator[SqlitePlace]:
    """Open a file for reading while others may write to it: it is read from one snapshot, and no process waits for it."""
    path = _path(store)
    if why := in_the_way(path, os.R_OK | os.W_OK):
        raise StoreError(f"{path}: Permission denied{why}")
    if not path.is_file() or not path.stat().st_size:
        raise RefusedError(f"{path}: there is no store")
    with connected(path) as connection:
        check_current(connection, path)
        before = numbered(path)
        connection.execute("PRAGMA query_only = ON")
        connection.execute("BEGIN")
        yield _Running(path, connection, before)


@contextmanager
def target(store: Store, source: Source) -> Iterator[SqlitePlace]:
    """Open a file to copy into, or make it."""
    path = _path(store)
    if source.name == f"sqlite://{path.resolve()}":
        raise RefusedError(f"{path} is both the source and the target")
    with alone(path):
        create(path)
        with connected(path) as connection:
            tables = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
            if tables and _application(connection) != HALF_COPIED:
                prepare(connection, path)
            yield SqlitePlace(path, connection)


def _path(store: Store) -> Path:
    assert isinstance(store, SqliteStore)
    return store.path


@contextmanager
def connected(path: Path, *, read_only: bool = False) -> Iterator[sqlite3.Connection]:
    """Connect; errors of SQLite are raised as StoreError, and at the end an open transaction is rolled back."""
    uri = f"{path.absolute().as_uri()}?mode={'ro' if read_only else 'rwc'}"
    try:
        with closing(
            sqlite3.connect(uri, uri=True, timeout=WAITING, isolation_level=None)
        ) as connection:
            yield connection
    except sqlite3.Error as problem:
        raise StoreError(f"SQLite: {problem}") from problem


def _application(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA application_id").fetchone()[0])


def _batches(rows: Iterable[Row]) -> Iterator[tuple[list[Row], int]]:
    """Yield rows in lists, each with its number of bytes."""
    batch: list[Row] = []
    byte_count = 0
    for row in rows:
        batch.append(row)
        byte_count += sum(len(value) for value in row if isinstance(value, (str, bytes)))
        if len(batch) == AT_ONCE or byte_count > BYTES_AT_ONCE:
            yield batch, byte_count
            batch, byte_count = [], 0
    yield batch, byte_count


def _has_large(table: DatabaseTable) -> bool:
    """Return whether the table has items by their numbers, whose payloads may be large."""
    return {"seq", "payload"} <= table.kinds.keys()


def _listed(table: str, columns: Iterable[str]) -> str:
    """Return columns by the names that they have in this store."""
    here = {common: own for (of, own), common in RENAMED.items() if of == table}
    return ", ".join(_quoted(here.get(column, column)) for column in columns)


def _common(table: str, column: str) -> str:
    return RENAMED.get((table, column), column)


def _quoted(name: str) -> str:
    return f'"{name}"'
