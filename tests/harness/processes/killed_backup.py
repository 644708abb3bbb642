"""`python killed_backup.py STORE FILE`: backs STORE up into FILE, and is killed before each step that does something, in turn.

After each kill FILE does not exist, or it is complete; and the next attempt begins on the leftovers of the killed one. Prints how
often it was killed.
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

from pubqueue.stores.copying import backups, sqlite

STORE, FILE = sys.argv[1], Path(sys.argv[2])
left: list[int] = []
"""Steps until the end, in a process that is to be killed."""


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

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        if not statement.startswith("SELECT"):
            passes()
        if statement.startswith("PRAGMA synchronous"):
            statement = "PRAGMA synchronous = OFF"
        return super().execute(statement, *values)

    def executemany(self, statement: str, rows: Any) -> sqlite3.Cursor:
        passes()
        return super().executemany(statement, rows)


def sync(_descriptor: int) -> None:
    """Pass a point instead of waiting for the disk."""
    passes()


def renamed(part: Path, file: Path) -> None:
    passes()
    os.replace(part, file)


def attempt(steps: int) -> bool:
    """Back up in a process of its own; return whether it has finished before this many steps."""
    child = os.fork()
    if not child:
        left.append(steps)
        with suppress(BaseException):
            backups.backup(STORE, FILE, Unwatched())
            os._exit(0)
        os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.waitstatus_to_exitcode(status) == 0, "it failed by itself"
    return not os.WIFSIGNALED(status)


sqlite.sqlite3 = type(
    "sqlite3", (), vars(sqlite3) | {"connect": partial(sqlite3.connect, factory=Sqlite)}
)  # type: ignore[assignment]
os.fsync = sync
Path.rename = renamed  # type: ignore[assignment]
kills: Final[list[bool]] = []
while not attempt(len(kills)):
    kills.append(FILE.exists())
    if kills[-1]:
        with backups.opened(FILE, Unwatched()):
            FILE.unlink()
assert True in kills, "between the name and the sync of its folder it is there, and whole"
assert kills.index(True) > 50, kills
print(len(kills))
