"""Keeps the store's files private to their owner, because they contain payloads and addresses."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

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
