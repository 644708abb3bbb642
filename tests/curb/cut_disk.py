"""A disk that ends the process at a chosen byte or step, and what is left of its files if the power fails, too."""

from __future__ import annotations

import os
from stat import S_ISREG
from typing import TYPE_CHECKING, Any, Self

from pubqueue.curb import journal

if TYPE_CHECKING:
    from pathlib import Path


class CutError(BaseException):
    """The process ends here: nothing catches it, as nothing catches a SIGKILL."""


class CutDisk:
    """`os`, as the journal uses it, for `steps` bytes and calls; after each the length of every file is checked.

    `synced` is what each file had when it was last synced, and the folder with it.
    """

    def __init__(self, cap: int, steps: float = float("inf")) -> None:
        self.left = steps
        self.taken = 0
        self.synced: dict[str, bytes] = {}
        self._cap = cap
        self._open: set[int] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def _step(self) -> None:
        for file in self._open:
            found = os.fstat(file)
            assert not S_ISREG(found.st_mode) or found.st_size <= self._cap
        self.left -= 1
        self.taken += 1
        if self.left < 0:
            raise CutError

    def open(self, path: Path, flags: int, mode: int = 0o777) -> int:
        """Open a file, and note that it is."""
        file = os.open(path, flags, mode)
        self._open.add(file)
        return file

    def close(self, file: int) -> None:
        """Close a file."""
        self._open.discard(file)
        os.close(file)

    def pwrite(self, file: int, data: bytes, place: int) -> int:
        """Write byte by byte."""
        for at in range(len(data)):
            self._step()
            assert os.pwrite(file, data[at : at + 1], place + at) == 1
        self._step()
        return len(data)

    def ftruncate(self, file: int, size: int) -> None:
        """Cut a file off."""
        self._step()
        os.ftruncate(file, size)
        self._step()

    def rename(self, old: Path, new: Path) -> None:
        """Rename a file, which is synced."""
        self._step()
        os.rename(old, new)
        self.synced[new.name] = self.synced.pop(old.name, b"")
        self._step()

    def fsync(self, file: int) -> None:
        """Note a file or the folder as synced; the disk of the tests need not do it."""
        self._step()
        self._note(file)
        self._step()

    def fdatasync(self, file: int) -> None:
        """Note a file as synced."""
        self.fsync(file)

    def _note(self, file: int) -> None:
        path = os.readlink(f"/proc/self/fd/{file}")
        if os.path.isfile(path):
            with open(path, "rb") as read:
                self.synced[os.path.basename(path)] = read.read()

    def __enter__(self) -> Self:
        journal.os = self  # type: ignore[assignment]
        return self

    def __exit__(self, *_problem: object) -> None:
        journal.os = os
        for file in self._open:
            os.close(file)
