"""Reads a store's file and leaves it unchanged."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from contextlib import closing
from typing import TYPE_CHECKING, TypeVar

from pubqueue.engine.ports import ForeignStoreError
from pubqueue.stores import ReadOnlyResult, older
from pubqueue.stores.reading_errors import in_the_way
from pubqueue.stores.sql.session import NodeIds
from pubqueue.stores.sql.transaction import SqlTransaction
from pubqueue.stores.sqlite.connection import DAMAGE, LOCK_TIMEOUT, words
from pubqueue.stores.sqlite.schema import SQL, check_whole, migrate, migrations, schema_number
from pubqueue.stores.sqlite.store import SqliteSession, SqliteStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pubqueue.engine.ports import Store, Transaction

T = TypeVar("T")

SCHEMA = "SELECT type, name, tbl_name, sql FROM sqlite_schema"
ABSENT = "does not exist yet; the service creates it when it starts"


def run_read_only(store: Store, job: Callable[[Transaction], T]) -> ReadOnlyResult[T]:
    """Run a job on the current contents of the file; see `pubqueue.stores.run_read_only`."""
    assert isinstance(store, SqliteStore)
    path = store.path
    try:
        if not path.exists():
            _see_that_it_can_be_made(path)
            return ReadOnlyResult(None, [f"{path} {ABSENT}"])
        if not path.stat().st_size:
            return ReadOnlyResult(None, [f"{path} is empty; the start of the service fills it"])
        uri = f"{path.absolute().as_uri()}?mode=ro"
        with closing(
            sqlite3.connect(uri, uri=True, timeout=LOCK_TIMEOUT, isolation_level=None)
        ) as connection:
            return _run(connection, path, job)
    except (*DAMAGE, OSError) as problem:
        why = (
            f"unable to open database file: {problem.strerror}"
            if isinstance(problem, OSError)
            else problem
        )
        raise ForeignStoreError(f"{path}: {why}{in_the_way(path, os.R_OK | os.W_OK)}") from problem


def _run(
    connection: sqlite3.Connection, path: Path, job: Callable[[Transaction], T]
) -> ReadOnlyResult[T]:
    check_whole(connection, path)
    done, known = schema_number(connection), len(migrations())
    if done > known:
        sentence = f"its schema is number {done}, this program knows {known}; use a newer one"
        raise ForeignStoreError(f"{path}: {sentence}")
    if done < known:
        return ReadOnlyResult(None, [f"{path}: {older(done, known)}"])
    connection.execute("PRAGMA query_only = ON")
    connection.execute("BEGIN")
    if why := _damage(connection):
        raise ForeignStoreError(f"{path} is damaged: {why}; restore a backup")
    return ReadOnlyResult(
        job(SqlTransaction(SqliteSession(connection, NodeIds()), words, foreign=True)), []
    )


def _damage(connection: sqlite3.Connection) -> str:
    """Return what is wrong with the pages and the schema of the file, empty if nothing is.

    A connection that only reads takes a schema as it is.
    """
    (state,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    if state != "ok":
        return str(state)
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as model:
        migrate(model, "")
        if set(model.execute(SCHEMA)) - set(connection.execute(SCHEMA)):
            return "its schema is not the one that was made"
    (left,) = connection.execute(SQL["count_left_over"]).fetchone()
    return f"{left} large payloads belong to no item" if left else ""


def _see_that_it_can_be_made(path: Path) -> None:
    """Make an unnamed file in the folder, and remove it at once; raise OSError if that fails."""
    with tempfile.TemporaryFile(dir=path.parent):
        pass
