"""The folder of a run of tests: its temporary files, and what its processes share.

It is in memory where a file system there has room: stores and databases wait for the disk with each commit, and no test asks what a disk
has after a loss of power (`databases/power_loss.py` has a disk of its own). TMPDIR or `--basetemp` say otherwise.

A run without failures removes it. What another run has left goes with the next one, so memory holds few of them.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Final

IN_MEMORY: Final = Path("/dev/shm")
ROOM: Final = 3 << 30
"""Bytes that have to be free there, and in memory. A run has some hundreds of megabytes at a time, most of them databases."""
PREFIX: Final = "pqt-"
"""Short, for the address of a socket has at most 107 bytes."""
FRESH: Final = 60
"""Seconds after which a folder without a lock is left over."""

_shared: list[Path] = []


def shared() -> Path | None:
    """Return the folder that the processes of this run share; None outside a run of tests."""
    return _shared[-1] if _shared else None


def share(folder: Path) -> None:
    """Use the folder of the run, and let later temporary files of this process be in it."""
    _shared.append(folder)
    tempfile.tempdir = str(folder)


class RunFolder:
    """A new folder, which is this run's as long as its first process lives."""

    def __init__(self, parent: Path | None = None) -> None:
        """Make it, and remove those of other runs that have ended."""
        self._usual, parent = tempfile.tempdir, parent or _parent()
        for left in parent.glob(f"{PREFIX}*"):
            _remove_if_left(left)
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        self.path.chmod(0o711)  # servers that run as other users have their files in it
        self._lock = os.open(self.path, os.O_RDONLY)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        share(self.path)

    def close(self, *, keep: bool) -> None:
        """Remove it, or leave it to be looked at until the next run."""
        os.close(self._lock)
        _shared.remove(self.path)
        tempfile.tempdir = self._usual
        if not keep:
            shutil.rmtree(self.path, ignore_errors=True)


def _parent() -> Path:
    usual = Path(tempfile.gettempdir())
    if "TMPDIR" in os.environ or not IN_MEMORY.is_dir() or not os.access(IN_MEMORY, os.W_OK):
        return usual
    there = os.statvfs(IN_MEMORY)
    has_room = min(there.f_bavail * there.f_frsize, _available()) >= ROOM
    return IN_MEMORY if has_room and not there.f_flag & os.ST_NOEXEC else usual


def _available() -> int:
    """Return how many bytes of memory programs may still take."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        name, _, size = line.partition(":")
        if name == "MemAvailable":
            return int(size.split()[0]) << 10
    return 0


def _remove_if_left(folder: Path) -> None:
    try:
        found = folder.stat()
        if found.st_uid != os.geteuid() or found.st_mtime > time.time() - FRESH:
            return
        opened = os.open(folder, os.O_RDONLY)
    except OSError:  # its run has just removed it
        return
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    else:
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(opened)
