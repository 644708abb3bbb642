"""The store's files are their owner's alone: payloads and addresses are nobody else's business."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

MINE: Final = 0o600
BESIDE: Final = ("", "-wal", "-shm")
"""The ends of the names of SQLite's files; it gives the others the mode of the first when it makes them."""


def create(path: Path) -> None:
    """Make the file, empty, unless it is there; what is wrong with its place SQLite says better.

    What root makes belongs to the owner of the folder: a restore by root has to leave the store to the user of the
    service. SQLite gives the files beside it the same owner.
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
    """Take from others what an earlier version has let them do; a file of another user stays as it is."""
    for end in BESIDE:
        with suppress(OSError):
            Path(f"{path}{end}").chmod(MINE)
