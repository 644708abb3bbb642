"""A copy of this machine, to install into: its changes are in memory, and are lost with it. For root.

All of its files are those of this machine, below a layer that takes the writes; processes, users by their numbers and the
network are this machine's own. File systems that are mounted elsewhere than at the root are missing, except /dev, /proc and
/sys.

One that is `apart` has processes and a network of its own as well, with nothing but the loopback: every port is free, and
programs that were started there end with it.
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
for each in dev sys; do mount --rbind "/$each" "$1/root/$each"; done
if [ "$2" = apart ]; then mount -t proc proc "$1/root/proc"; else mount --rbind /proc "$1/root/proc"; fi
exec /usr/bin/python3 -Ic "$3" "$2"
"""
KEEP = """
import fcntl, signal, socket, struct, sys
if sys.argv[1] == "apart":
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # it is the first process there, and who ends belongs to it
    with socket.socket() as any_socket:
        SIOCSIFFLAGS, UP, RUNNING = 0x8914, 0x1, 0x40
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", UP | RUNNING))
print("mounted", flush=True)
sys.stdin.read()
"""
"""Holds the machine until its input ends."""


class CopiedMachine:
    """A context manager; `inside` is the prefix of a command that is to run there."""

    def __init__(self, *, apart: bool = False) -> None:
        self._apart = apart

    def __enter__(self) -> Self:
        self._temp = tempfile.TemporaryDirectory(prefix="pubqueue-machine-")
        own = ("--net", "--pid", "--fork") if self._apart else ()
        how = "apart" if self._apart else "here"
        self._keeper = subprocess.Popen(
            ["unshare", "--mount", *own, "sh", "-c", MOUNT, "sh", self._temp.name, how, KEEP],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._keeper.stdout is not None
        if self._keeper.stdout.readline() != b"mounted\n":
            self.__exit__(None, None, None)
            raise OSError("the copy of this machine could not be mounted")
        enter = ("nsenter", "--target", self._first(), "--mount", *own[:2])
        self.inside = (*enter, "chroot", str(Path(self._temp.name, "root")))
        return self

    def _first(self) -> str:
        """Return the process that holds the machine: if it is apart, it is not `unshare` but its child."""
        pid = self._keeper.pid
        if not self._apart:
            return str(pid)
        return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0]

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._keeper.communicate(b"")
        self._temp.cleanup()

    def does(self, *words: str | Path, given: str | bytes = b"") -> str:
        """Run a command there to its end, which has to succeed; return its output."""
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
