"""The file that was opened. If another file replaces it, writes to the first one are lost.

SQLite finds its log by the file's name alone: it would take the log of the first file for that of the second, and write
its pages into that. So the log is renamed.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import structlog

from pubqueue.engine.ports import FencedError, StoreError

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
