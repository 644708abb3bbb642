"""`python killed_copy.py FROM TO BACK`: copies FROM into TO, and is killed before each statement that does something, in turn.

After each kill a process that would serve from TO is refused, unless it is still empty or complete already; and the next attempt
begins on the leftovers. At the end the copy is copied to BACK. Prints how often it was killed.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import psycopg

from pubqueue.engine.ports import ForeignStoreError
from pubqueue.stores.copying import copy, sqlite
from pubqueue.stores.postgres import connection, schema
from pubqueue.stores.sqlite.schema import prepare

FROM, TO, BACK = sys.argv[1:]
left: list[int] = []
"""Statements until the end, in a process that is to be killed."""
LOOKS: Final = ("SELECT", "PRAGMA table_xinfo", "PRAGMA foreign_key_list")
ENDED: Final = """
    SELECT pg_terminate_backend(pid, 180000) FROM pg_stat_activity WHERE application_name = 'pubqueue'
"""
"""Returns when PostgreSQL has noticed who was killed: it keeps their locks until then."""


def passes() -> None:
    if left:
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)


class Unwatched:
    """Passes a point for each table as well."""

    def begin(self, rows: int) -> None:
        passes()

    def step(self, what: str, rows: int) -> None:
        passes()


class Sqlite(sqlite3.Connection):
    """Passes a point before each statement that does something. A kill needs no disk."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        super().execute("PRAGMA synchronous = OFF")

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        if not statement.startswith(LOOKS):
            passes()
        if statement.startswith("PRAGMA synchronous"):
            statement = "PRAGMA synchronous = OFF"
        return super().execute(statement, *values)

    def executemany(self, statement: str, rows: Any) -> sqlite3.Cursor:
        passes()
        return super().executemany(statement, rows)


class Postgres(psycopg.Connection[Any]):
    """Passes a point before each statement that does something."""

    def execute(self, statement: Any, *values: Any, **more: Any) -> Any:
        if not str(statement).startswith(LOOKS):
            passes()
        return super().execute(statement, *values, **more)


def is_refused(address: str) -> bool:
    """Return whether opening the store reports that it is half a copy."""
    try:
        if address.startswith("sqlite"):
            path = Path(address.removeprefix("sqlite://"))
            if path.exists():
                opened = sqlite3.connect(path, isolation_level=None)
                try:
                    prepare(opened, path)
                finally:
                    opened.close()
        else:
            with connection.connected(connection.completed(address)) as other:
                schema.prepare(other)
    except ForeignStoreError as problem:
        return "is not complete; `pubqueue migrate` can be begun again" in str(problem)
    return False


def attempt(statements: int) -> bool:
    """Copy in a process of its own; return whether it has finished before this many statements."""
    child = os.fork()
    if not child:
        left.append(statements)
        with suppress(BaseException):
            copy(FROM, TO, Unwatched())
            os._exit(0)
        os._exit(1)
    _, status = os.waitpid(child, 0)
    if TO.startswith("postgresql"):
        with psycopg.connect(TO) as other:
            other.execute(ENDED)
    assert os.WIFSIGNALED(status) or os.waitstatus_to_exitcode(status) == 0, "it failed by itself"
    return not os.WIFSIGNALED(status)


sqlite.sqlite3 = type(
    "sqlite3", (), vars(sqlite3) | {"connect": partial(sqlite3.connect, factory=Sqlite)}
)  # type: ignore[assignment]
connection.psycopg.connect = Postgres.connect
kills: Final[list[bool]] = []
while not attempt(len(kills)):
    kills.append(is_refused(TO))
first, last = kills.index(True), len(kills) - kills[::-1].index(True)
assert all(kills[first:last]), kills
copy(TO, BACK, Unwatched())
print(len(kills))
