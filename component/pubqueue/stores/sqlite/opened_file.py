"""Which file was opened: somebody may put another one in its place, and what is written to the first is nobody's then.

SQLite's log beside it goes by its name alone: the log of the first file would be taken for that of the second, and its
pages written into it. So it is set aside.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import structlog

from pubqueue.app.store.ports import FencedError, StoreError

log = structlog.get_logger(__name__)


class OpenedFile:
    """The file that was under a path when the store was opened."""

    def __init__(self, path: Path) -> None:
        self._path = os.fspath(path)
        self._identity: tuple[int, int] | None = None
        self._log: tuple[int, int] | None = None

    def note(self) -> None:
        """Take what is there now for the file of the store; to be called before SQLite opens it, or says why it cannot."""
        self._log = self._identity = None
        with suppress(StoreError):
            self._identity = _identity(self._path)

    def note_log(self) -> None:
        """Take the log that is there now for the one of this file; to be called when SQLite has opened it."""
        with suppress(StoreError):
            self._log = _identity(f"{self._path}-wal")

    def check(self) -> None:
        """See that it is still there; a store that was not opened has none.

        Raises:
            FencedError: another file has taken its place.
            StoreError: there is none in its place; it may come back.

        """
        if self._is_replaced():
            raise FencedError(f"{self._path} is another file than the one that was opened")

    def forget(self) -> None:
        """Set the log aside if the file was replaced; to be called when SQLite has closed it."""
        with suppress(StoreError):
            if self._is_replaced() and self._log == _identity(f"{self._path}-wal"):
                _set_aside(self._path)
        self._identity = self._log = None

    def _is_replaced(self) -> bool:
        return self._identity is not None and _identity(self._path) != self._identity


def _set_aside(path: str) -> None:
    """Give the log another name: whoever moved the file it belongs to may still want to have it."""
    number = 1
    while (aside := Path(f"{path}-wal-replaced-{number}")).exists():
        number += 1
    with suppress(OSError):
        Path(f"{path}-shm").unlink()
        Path(f"{path}-wal").rename(aside)
        log.warning("store.log_set_aside", file=str(aside))


def _identity(path: str) -> tuple[int, int]:
    try:
        found = os.stat(path)  # once in each batch: a path object costs as much again
    except OSError as problem:
        raise StoreError(f"{path}: {problem.strerror}") from problem
    return found.st_dev, found.st_ino
