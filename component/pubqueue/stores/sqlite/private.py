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
    """Make the file, empty, unless it is there; what is wrong with its place SQLite says better."""
    with suppress(OSError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, MINE))


def close_to_others(path: Path) -> None:
    """Take from others what an earlier version has let them do; a file of another user stays as it is."""
    for end in BESIDE:
        with suppress(OSError):
            Path(f"{path}{end}").chmod(MINE)
