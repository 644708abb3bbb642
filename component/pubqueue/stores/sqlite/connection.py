"""The SQLite file that was opened, its mode, and its errors."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog

from pubqueue.engine.ports import (
    FencedError,
    ForeignStoreError,
    StaleError,
    StoreError,
    UnfitError,
    UnreachableStoreError,
)
from pubqueue.stores.sql.transaction import unfit

if TYPE_CHECKING:
    from collections.abc import Iterator


# The file that was opened. If another file replaces it, writes to the first one are lost.
#
# SQLite finds its log by the file's name alone: it would take the log of the first file for that of the second, and write
# its pages into that. So the log is renamed.

log = structlog.get_logger(__name__)


class OpenedFile:
    """The file that was under a path when the store was opened."""

    def __init__(self, path: Path) -> None:
        self._path = os.fspath(path)
        self._identity: tuple[int, int] | None = None
        self._log: tuple[int, int] | None = None

    def note(self) -> None:
        """Note the file that is there now as that of the store; to be called before SQLite opens it."""
        self._log = self._identity = None
        with suppress(StoreError):
            self._identity = _identity(self._path)

    def note_log(self) -> None:
        """Note the log that is there now as that of this file; to be called after SQLite has opened it."""
        with suppress(StoreError):
            self._log = _identity(f"{self._path}-wal")

    def check(self) -> None:
        """Check that the file is still there; a store that was not opened has none.

        Raises:
            FencedError: another file has taken its place.
            StoreError: there is no file; it may come back.

        """
        if self._is_replaced():
            raise FencedError(f"{self._path} is another file than the one that was opened")

    def forget(self) -> None:
        """Rename the log if the file was replaced; to be called after SQLite has closed it."""
        with suppress(StoreError):
            if self._is_replaced() and self._log == _identity(f"{self._path}-wal"):
                _set_aside(self._path)
        self._identity = self._log = None

    def _is_replaced(self) -> bool:
        return self._identity is not None and _identity(self._path) != self._identity


def _set_aside(path: str) -> None:
    """Rename the log: it belongs to a file that was moved, and may still be needed."""
    number = 1
    while (aside := Path(f"{path}-wal-replaced-{number}")).exists():
        number += 1
    with suppress(OSError):
        Path(f"{path}-shm").unlink()
        Path(f"{path}-wal").rename(aside)
        log.warning("store.log_set_aside", file=str(aside))


def _identity(path: str) -> tuple[int, int]:
    try:
        found = os.stat(path)  # in each batch: a path object would double the cost
    except OSError as problem:
        raise StoreError(f"{path}: {problem.strerror}") from problem
    return found.st_dev, found.st_ino


# Translates SQLite's errors to those of the store interface.

NO_TEXT: Final = "Could not decode to UTF-8"
"""The beginning of its error about a row that has bytes in place of text."""


def words(problem: Exception) -> StoreError:
    """Return the store error for an exception that an operation on an open transaction has raised."""
    match problem:
        case sqlite3.IntegrityError():  # a constraint is also a guard
            return StaleError("constraint", str(problem))
        case sqlite3.DataError() | sqlite3.ProgrammingError() | sqlite3.InterfaceError():
            return UnfitError(str(problem))  # too long, or of no type that SQLite knows
        case sqlite3.OperationalError() if str(problem).startswith(NO_TEXT):
            return UnfitError("a text in a row is none")  # SQLite's message would contain the value
        case sqlite3.Error():
            return StoreError(str(problem))
        case _:
            return unfit(problem)


DAMAGE: Final = (sqlite3.Error, UnicodeDecodeError)
"""What is raised on a damaged file: SQLite's messages may contain names from it, which are no text any more."""


PASSING: Final = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR})
"""Kinds of its errors that may pass: a full disk has both."""


def not_opened(path: Path, problem: Exception) -> ForeignStoreError:
    """Return the store error for a file that could not be opened."""
    passes = getattr(problem, "sqlite_errorcode", 0) & 0xFF in PASSING
    return (UnreachableStoreError if passes else ForeignStoreError)(f"{path}: {problem}")


@contextmanager
def translated() -> Iterator[None]:
    """Raise errors of SQLite as StoreError."""
    try:
        yield
    except DAMAGE as problem:
        raise StoreError(str(problem)) from problem


# Waits for another process. SQLite's own patience tries only every tenth of a second, and has gaps: it gives up at once where a
# connection that reads asks to write, as it does to make a file's write-ahead log.

LOCK_TIMEOUT: Final = 5.0
"""Seconds to wait while another process holds the file's lock."""

LOCK_POLL_INTERVAL: Final = 0.002
"""Seconds between two attempts to get it; a busy process leaves only short gaps."""


def run_patiently(connection: sqlite3.Connection, statement: str) -> sqlite3.Cursor:
    """Run a statement that needs the file's lock; while another process holds it, retry often."""
    patient_until = time.monotonic() + LOCK_TIMEOUT
    while True:
        try:
            return connection.execute(statement)
        except sqlite3.OperationalError as problem:
            busy = problem.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
            if not busy or time.monotonic() > patient_until:
                raise
            time.sleep(LOCK_POLL_INTERVAL)


# Keeps the store's files private to their owner, because they contain payloads and addresses.

MINE: Final = 0o600
BESIDE: Final = ("", "-wal", "-shm")
"""The suffixes of SQLite's files; SQLite makes the others with the mode of the first."""


def create(path: Path) -> None:
    """Make the file, empty, unless it exists. Errors are ignored here, because SQLite reports them better.

    If root makes the file, it gets the owner of the folder: a restore by root has to leave the store to the user of the
    service. SQLite gives its other files the same owner.
    """
    with suppress(OSError):
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, MINE)
        try:
            if os.geteuid() == 0:
                folder = path.absolute().parent.stat()
                os.fchown(descriptor, folder.st_uid, folder.st_gid)
        finally:
            os.close(descriptor)


def close_to_others(path: Path) -> None:
    """Remove permissions of other users, which an earlier version left; a file of another user stays as it is."""
    for end in BESIDE:
        with suppress(OSError):
            Path(f"{path}{end}").chmod(MINE)
