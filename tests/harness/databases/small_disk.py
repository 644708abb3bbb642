"""A disk of a few megabytes that really becomes full: a tmpfs, visible only to programs that run inside."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from harness.databases.postgres import belongs

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

MOUNT = 'mount -t tmpfs -o "size=$1,mode=700" tmpfs "$2" && echo mounted && exec cat'

PIECE: Final = 64 << 10
"""Bytes that are written at once."""

AS_ONESELF: Final = ("--user", "--map-current-user", "--keep-caps")
"""How a user other than root may mount: in a user namespace of its own."""


class SmallDisk:
    """A context manager; `inside` is the prefix of a command that is to see the disk at `folder`.

    It is in a mount namespace of a process of ours: when that ends, nothing is left of it.
    """

    def __init__(self, size: int) -> None:
        self._size = size

    def __enter__(self) -> Self:
        self._temp = tempfile.TemporaryDirectory(prefix="pubqueue-disk-")
        belongs(Path(self._temp.name))  # or a user without rights could not go through it
        self.folder = Path(self._temp.name, "disk")
        self.folder.mkdir()
        self._keeper = subprocess.Popen(
            [
                "unshare",
                *(AS_ONESELF if os.geteuid() else ()),
                "--mount",
                "sh",
                "-c",
                MOUNT,
                "sh",
                str(self._size),
                self.folder,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._keeper.stdout is not None
        said = self._keeper.stdout.readline()
        assert said == b"mounted\n", "no disk can be mounted here"
        belongs(self._there)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._keeper.communicate()
        self._temp.cleanup()

    @property
    def inside(self) -> Sequence[str]:
        """The prefix of a command."""
        own = ("--user", "--preserve-credentials") if os.geteuid() else ()
        return "nsenter", "--target", str(self._keeper.pid), *own, "--mount", "--"

    def fill(self, leave: int = 0) -> None:
        """Let a file take the free space, except this many bytes; another writer may take some of it."""
        free = shutil.disk_usage(self._there).free - leave
        with self._ballast.open("ab", buffering=0) as file:
            try:
                for size in range(max(0, free), 0, -PIECE):
                    file.write(bytes(min(size, PIECE)))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise

    def clear(self) -> None:
        """Make space again."""
        self._ballast.unlink()

    @property
    def _there(self) -> Path:
        """The disk, as seen from outside."""
        return Path(f"/proc/{self._keeper.pid}/root/{self.folder}")

    @property
    def _ballast(self) -> Path:
        return self._there / "ballast"
