"""SQLite's schema, and its statements by name."""

from __future__ import annotations

import re
import sqlite3
from contextlib import nullcontext
from typing import TYPE_CHECKING, Final

from pubqueue.engine.ports import ForeignStoreError, StoreError, UnreachableStoreError
from pubqueue.stores.sql.session import (
    Dialect,
    scripts,
    served_from,
    statements,
    unfinished_copy,
    unlike,
)
from pubqueue.stores.sqlite.connection import run_patiently

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path


# Prepares a connection: checks whose file it is, sets how it writes, and migrates the schema.

APPLICATION_ID: Final = 0x70756271
"""`pubq`, in the header of the file: a store of ours."""

HALF_COPIED: Final = 0x70756263
"""`pubc`, in its place as long as a copy into the file is not complete; older versions also refuse such a file."""

BACKUP: Final = 0x7075626B
"""`pubk`, in its place in a backup: no process serves from one, so that it stays unchanged."""

PAGE_CACHE: Final = 65_536
"""The maximum KiB of pages kept in memory. With SQLite's default of 2 MiB a large commit reads and writes pages
repeatedly: 22 us an item instead of 8, if ids come in random order."""


class ServedError(StoreError):
    """A process serves from the store, so that no other process can have exclusive access."""


def prepare(
    connection: sqlite3.Connection,
    path: Path,
    *,
    application: int = APPLICATION_ID,
    alone: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> None:
    """Prepare the connection for writing. Only a copy writes to a file that is marked as `HALF_COPIED`.

    A file of an older schema is migrated while this process has it `alone`.

    Raises:
        ForeignStoreError: the file is not ours, is newer than this program, or is unusable.
        UnreachableStoreError: it is of an older schema, and `alone` found that a process serves from it.

    """
    _check_ours(connection, path, application)
    (mode,) = run_patiently(connection, "PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise ForeignStoreError(f"{path}: SQLite cannot keep a write-ahead log here")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(
        "PRAGMA secure_delete = FAST"
    )  # Debian's SQLite would write zeros over pages that are freed
    connection.execute(f"PRAGMA cache_size = {-PAGE_CACHE}")
    guard(connection)
    if 0 < schema_number(connection) < len(migrations()):
        _bring_up(connection, path, application, alone)
    migrate(connection, path, application)
    make_tables_of_its_own(connection)
    connection.execute("PRAGMA busy_timeout = 0")  # the caller retries if the file is locked


def guard(connection: sqlite3.Connection) -> None:
    """Turn on SQLite's check of foreign keys, which is set for each connection."""
    connection.execute("PRAGMA foreign_keys = ON")


def make_tables_of_its_own(connection: sqlite3.Connection) -> None:
    """Make the temporary tables of a connection in which a commit is sorted out."""
    connection.execute("PRAGMA temp_store = MEMORY")
    for query in ("make_winner", "make_conflicts"):
        connection.execute(SQL[query])


def _check_ours(connection: sqlite3.Connection, path: Path, ours: int) -> None:
    """Refuse a database of another program, and one marked otherwise than `ours`; accept an empty one."""
    connection.execute("BEGIN")  # one snapshot for both: another process may be making it
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    connection.execute("COMMIT")
    if tables and application == HALF_COPIED != ours:
        raise ForeignStoreError(f"{path}: {unfinished_copy(copied_from(connection))}")
    if tables and application == BACKUP != ours:
        raise ForeignStoreError(
            f"{path}: this is a backup; `pubqueue restore` fills a store from it"
        )
    if tables and application != ours:
        raise ForeignStoreError(f"{path}: this SQLite database belongs to another program")


def copied_from(connection: sqlite3.Connection) -> str:
    """Return the source of the unfinished copy in a file that is marked as `HALF_COPIED`."""
    (source,) = connection.execute("SELECT source FROM copying").fetchone()
    return str(source)


def check_whole(connection: sqlite3.Connection, path: Path) -> None:
    """Check that the file is a complete store of ours.

    Raises:
        ForeignStoreError: it is not.

    """
    _check_ours(connection, path, APPLICATION_ID)


def check_current(connection: sqlite3.Connection, path: Path) -> None:
    """Check that the file is a complete store on the schema of this program, without writing to it.

    Raises:
        ForeignStoreError: it is not.

    """
    _check_ours(connection, path, APPLICATION_ID)
    done, known = schema_number(connection), len(migrations())
    if done != known:
        raise ForeignStoreError(f"{path}: {unlike(done, known)}")


def _bring_up(
    connection: sqlite3.Connection,
    path: Path,
    application: int,
    alone: Callable[[], AbstractContextManager[None]],
) -> None:
    """Migrate the file of an older program to the newest schema, while no process serves from it."""
    try:
        with alone():
            migrate(connection, path, application)
    except ServedError as problem:
        done, known = schema_number(connection), len(migrations())
        raise UnreachableStoreError(f"{path}: {served_from(done, known)}") from problem


def migrate(
    connection: sqlite3.Connection, path: Path | str, application: int = APPLICATION_ID
) -> None:
    """Run the migrations that this file does not have yet, in one transaction; a second process waits for it."""
    steps = migrations()
    if schema_number(connection) == len(steps):
        return
    connection.execute("BEGIN IMMEDIATE")
    done = schema_number(connection)
    if done > len(steps):
        raise ForeignStoreError(
            f"{path}: its schema is number {done}, this program knows {len(steps)}; use a newer one"
        )
    for script in steps[done:]:
        for statement in split_statements(script):
            connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {application}")
    connection.execute(f"PRAGMA user_version = {len(steps)}")
    connection.execute("COMMIT")


def migrations() -> list[str]:
    """Return the scripts of all migrations, in order."""
    return scripts(__package__)


def schema_number(connection: sqlite3.Connection) -> int:
    """Return how many migrations the file has."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def split_statements(script: str) -> Iterator[str]:
    """Split a script into statements: `executescript` would commit the transaction first."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


# SQLite's statements by name.

_NOT_OURS: Final = re.compile(r"\$(\d+)(?:::\w+)?|::\w+")


def spelled(text: str) -> str:
    """Return a statement of PostgreSQL with SQLite's placeholders, and without casts, which SQLite does not need."""
    return _NOT_OURS.sub(lambda found: f"?{found[1]}" if found[1] else "", text)


DIALECT: Final = Dialect("CROSS JOIN", r"(SELECT value FROM json_each($\1))", spelled)
"""SQLite reads the tables of a CROSS JOIN in their order."""

SQL: Final = statements(__package__, DIALECT)
