"""Makes a connection ready: whose file it is, how it keeps what is written, and its schema."""

from __future__ import annotations

import sqlite3
from contextlib import nullcontext
from typing import TYPE_CHECKING, Final

from pubqueue.app.store.ports import ForeignStoreError, StoreError, UnreachableStoreError
from pubqueue.stores.sql.statements import scripts, served_from, unfinished_copy, unlike
from pubqueue.stores.sqlite.queries import SQL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

APPLICATION_ID: Final = 0x70756271
"""`pubq`, in the header of the file: a database of ours."""

HALF_COPIED: Final = 0x70756263
"""`pubc`, in its place as long as a copy into the file is not complete; programs that know nothing of it refuse it as well."""

BACKUP: Final = 0x7075626B
"""`pubk`, in its place in a backup: nobody serves from one, so that it stays what it is."""

PAGE_CACHE: Final = 65_536
"""KiB of pages to keep in memory at most. With SQLite's own 2 MiB a large commit reads and writes pages again
and again: 22 us an item instead of 8, where ids come in no order."""


class ServedError(StoreError):
    """A process serves from the store that somebody wants to have alone."""


def prepare(
    connection: sqlite3.Connection,
    path: Path,
    *,
    application: int = APPLICATION_ID,
    alone: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> None:
    """Make the connection ready to write. Only who copies a store writes to a file that is marked as `HALF_COPIED`.

    A file of an older schema is brought to the newest one while this process has it `alone`.

    Raises:
        ForeignStoreError: the file is not ours, is newer than this program, or is unusable.
        UnreachableStoreError: it is of an older schema, and `alone` says that a process serves from it.

    """
    _check_ours(connection, path, application)
    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise ForeignStoreError(f"{path}: SQLite cannot keep a write-ahead log here")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(f"PRAGMA cache_size = {-PAGE_CACHE}")
    guard(connection)
    if 0 < schema_number(connection) < len(migrations()):
        _bring_up(connection, path, application, alone)
    migrate(connection, path, application)
    make_tables_of_its_own(connection)
    connection.execute(
        "PRAGMA busy_timeout = 0"
    )  # whoever finds the file locked looks again by themselves


def guard(connection: sqlite3.Connection) -> None:
    """Have SQLite see that rows refer to rows that are there, which each connection has to ask for."""
    connection.execute("PRAGMA foreign_keys = ON")


def make_tables_of_its_own(connection: sqlite3.Connection) -> None:
    """Make the tables in which a connection sorts out a commit, and which nobody else sees."""
    connection.execute("PRAGMA temp_store = MEMORY")
    for query in ("make_winner", "make_met"):
        connection.execute(SQL[query])


def _check_ours(connection: sqlite3.Connection, path: Path, ours: int) -> None:
    """Refuse a database that somebody else has made, or that a copy was to become; an empty one becomes ours."""
    connection.execute("BEGIN")  # one moment for both: another process may be making it
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
    """Return what store a file that is marked as `HALF_COPIED` is the unfinished copy of."""
    (source,) = connection.execute("SELECT source FROM copying").fetchone()
    return str(source)


def check_whole(connection: sqlite3.Connection, path: Path) -> None:
    """See that the file is a store of ours, and no part of one.

    Raises:
        ForeignStoreError: it is not.

    """
    _check_ours(connection, path, APPLICATION_ID)


def check_current(connection: sqlite3.Connection, path: Path) -> None:
    """See that the file is a whole store on the schema of this program, without writing to it.

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
    """Bring the file of an older program to the newest schema, while nobody serves from it."""
    try:
        with alone():
            migrate(connection, path, application)
    except ServedError as problem:
        done, known = schema_number(connection), len(migrations())
        raise UnreachableStoreError(f"{path}: {served_from(done, known)}") from problem


def migrate(
    connection: sqlite3.Connection, path: Path | str, application: int = APPLICATION_ID
) -> None:
    """Run the migrations that this file has not seen, in one transaction; a second process waits for it."""
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
        for statement in statements(script):
            connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {application}")
    connection.execute(f"PRAGMA user_version = {len(steps)}")
    connection.execute("COMMIT")


def migrations() -> list[str]:
    """Return the scripts of all migrations, in order."""
    return scripts(__package__)


def schema_number(connection: sqlite3.Connection) -> int:
    """Return how many migrations the file has seen."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def statements(script: str) -> Iterator[str]:
    """Cut a script apart: sqlite3's own way to run one would end the transaction first."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
