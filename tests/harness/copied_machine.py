"""This machine once more, to install into: what is changed there is in memory, and goes with it. For root.

All of its files are those of this machine, below a layer that takes what is written; processes, users by their numbers and the
network are this machine's own. What is mounted elsewhere than at the root is not there, but for /dev, /proc and /sys.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType

MOUNT = """
set -e
mount -t tmpfs -o mode=755 tmpfs "$1"
mkdir "$1/written" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/written,workdir=$1/work" "$1/root"
for each in dev proc sys; do mount --rbind "/$each" "$1/root/$each"; done
echo mounted
exec cat
"""


class CopiedMachine:
    """A context manager; `inside` is what to put before a command that is to run there."""

    def __enter__(self) -> Self:
        self._temp = tempfile.TemporaryDirectory(prefix="pubqueue-machine-")
        self._keeper = subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", MOUNT, "sh", self._temp.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._keeper.stdout is not None
        if self._keeper.stdout.readline() != b"mounted\n":
            self.__exit__(None, None, None)
            raise OSError("the copy of this machine could not be mounted")
        enter = ("nsenter", "--target", str(self._keeper.pid), "--mount")
        self.inside = (*enter, "chroot", str(Path(self._temp.name, "root")))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._keeper.communicate(b"")
        self._temp.cleanup()

    def does(self, *words: str | Path, given: str | bytes = b"") -> str:
        """Run a command there to its end, which has to be a good one; return what it has said."""
        data = given.encode() if isinstance(given, str) else given
        done = subprocess.run(
            [*self.inside, *words],
            input=data,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive"},
        )
        assert done.returncode == 0, done.stdout.decode()
        return done.stdout.decode()
