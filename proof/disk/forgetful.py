"""A file system that forgets what was not synced: `python -m proof.disk.forgetful PLACE MOUNT --seed 1`, until the power fails.

Everything is in memory. What `fsync` has confirmed is in the folder `place` as well, which outlives this program: one that is
killed has lost all that was not synced. To look at the name `.power` in its root is a loss of power that is less kind: of what was not
synced some writes may have come to the disk, in any order and torn at a sector; so may names that were made, removed or changed, but these in
their order, as the journals of file systems keep it. With `Rules` it fails otherwise as well.

A name is on disk when its folder has been synced, or the file itself (as on ext4, XFS and Btrfs), which brings all earlier names along.
After an `fsync` that has failed, what was to be written is lost, though it can be read: a second `fsync` succeeds and writes none of it (as on Linux).
"""

from __future__ import annotations

import errno
import json
import os
import stat
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

import click
from mfusepy import FUSE, FuseOSError, Operations

POWER: Final = "/.power"
DOTS: Final = (".", "..")
SECTOR: Final = 512
NAMES: Final = "names.json"


@dataclass
class File:
    """A file as programs see it; `unsynced` are its changes since the disk has confirmed it: a place, and bytes or a length."""

    number: int
    mode: int
    data: bytearray = field(default_factory=bytearray)
    unsynced: list[tuple[int, bytes | None]] = field(default_factory=list)
    changed: int = field(default_factory=time.time_ns)

    def change(self, at: int, data: bytes | None) -> None:
        """Write at a place, or cut or lengthen the file to it."""
        change(self.data, at, data)
        self.unsynced.append((at, data))
        self.changed = time.time_ns()


def change(image: bytearray, at: int, data: bytes | None) -> None:
    """Do that to an image."""
    if data is None:
        del image[at:]
    if len(image) < at:
        image.extend(bytes(at - len(image)))
    if data is not None:
        image[at : at + len(data)] = data


@dataclass(frozen=True, slots=True)
class Rules:
    """How the disk fails besides: the part of its syncs and writes that end with EIO, its size in bytes, whether it only says that
    it syncs, and how many bits flip when the power fails."""

    failing: float = 0.0
    size: int = 1 << 40
    is_lying: bool = False
    flips: int = 0


class Disk:
    """The files, and what of them is in `place`; without the file system, for its tests."""

    def __init__(self, place: Path, random: Random, rules: Rules = Rules()) -> None:
        self.place, self.random, self.rules = place, random, rules
        self.files: dict[str, File] = {}
        self._synced: dict[str, tuple[int, int]] = {}
        self._names: list[list[tuple[str, File | None]]] = []
        """Names that were given or taken away since the last sync, in their order; several together by a rename."""
        self._last = 0
        if (place / NAMES).exists():
            self._synced = json.loads((place / NAMES).read_text())
        for name, (number, mode) in self._synced.items():
            path = place / str(number)
            data = path.read_bytes() if path.exists() else b""
            self.files[name] = File(number, mode, bytearray(data))
            self._last = max(self._last, number)

    def add(self, name: str, mode: int) -> File:
        """Make a file or a folder."""
        self._last += 1
        self.name((name, File(self._last, mode)))
        return self.files[name]

    def name(self, *changes: tuple[str, File | None]) -> None:
        """Give files names, or take them away, all at once."""
        for name, file in changes:
            if file is None:
                del self.files[name]
            else:
                self.files[name] = file
        self._names.append(list(changes))

    def rename(self, old: str, new: str) -> None:
        """Give what has a name another one, with all that is in it."""
        moved = [name for name in self.files if name == old or name.startswith(f"{old}/")]
        given = [(f"{new}{name.removeprefix(old)}", self.files[name]) for name in moved]
        self.name(*given, *((name, None) for name in moved))

    def grow(self, by: int) -> None:
        """See that there is room for so many bytes more.

        Raises:
            FuseOSError: there is none.

        """
        if by > 0 and sum(len(file.data) for file in self.files.values()) + by > self.rules.size:
            raise FuseOSError(errno.ENOSPC)

    def fail(self) -> None:
        """Fail now and then.

        Raises:
            FuseOSError: this is such a time.

        """
        if self.rules.failing and self.random.random() < self.rules.failing:
            raise FuseOSError(errno.EIO)

    def sync(self, file: File | None) -> None:
        """Bring a file to the disk, and all names; None: only these.

        Raises:
            FuseOSError: it fails; what was to be written is forgotten.

        """
        if self.rules.is_lying:
            return
        unsynced: list[tuple[int, bytes | None]] = []
        if file is not None:
            unsynced, file.unsynced = file.unsynced, []
        self.fail()
        if file is not None:
            self._write(file.number, unsynced)
        self._keep(len(self._names))

    def sync_all(self) -> None:
        """Bring everything to the disk, as a machine does that is shut down."""
        for file in self.files.values():
            self._write(file.number, file.unsynced)
            file.unsynced = []
        self._keep(len(self._names))

    def lose_power(self) -> None:
        """Leave on the disk what was synced, and of the rest whatever had come to it."""
        for file in {id(it): it for it in [*self.files.values(), *self._unnamed()]}.values():
            self._write(file.number, self._torn(file.unsynced))
        self._keep(self.random.randint(0, len(self._names)))
        for _ in range(self.rules.flips):
            self._flip()

    def _unnamed(self) -> list[File]:
        return [file for group in self._names for _, file in group if file is not None]

    def _torn(self, unsynced: list[tuple[int, bytes | None]]) -> list[tuple[int, bytes | None]]:
        """Return some of these changes, in another order, some of them cut at a sector."""
        came = [one for one in unsynced if self.random.random() < 0.5]
        self.random.shuffle(came)
        return [
            (at, data[: self._cut(at, len(data))] if data and self.random.random() < 0.3 else data)
            for at, data in came
        ]

    def _cut(self, at: int, length: int) -> int:
        end = self.random.randint(at, at + length) // SECTOR * SECTOR
        return max(0, end - at)

    def _write(self, number: int, changes: list[tuple[int, bytes | None]]) -> None:
        path = self.place / str(number)
        if not changes and path.exists():
            return
        with path.open("r+b" if path.exists() else "w+b") as file:
            for at, data in changes:
                if data is None:
                    file.truncate(at)
                else:
                    file.seek(at)
                    file.write(data)

    def _keep(self, count: int) -> None:
        """Bring so many changes of names to the disk."""
        if not count and (self.place / NAMES).exists():
            return
        for name, file in (one for group in self._names[:count] for one in group):
            if file is None:
                self._synced.pop(name, None)
            else:
                self._synced[name] = file.number, file.mode
        del self._names[:count]
        new = self.place / f"{NAMES}.new"
        new.write_text(json.dumps(self._synced))
        new.rename(self.place / NAMES)

    def _flip(self) -> None:
        """Flip a bit of what is on the disk."""
        paths = [
            path
            for number, _ in self._synced.values()
            if (path := self.place / str(number)).exists() and path.stat().st_size
        ]
        if paths:
            path = self.random.choice(sorted(paths))
            data = bytearray(path.read_bytes())
            data[self.random.randrange(len(data))] ^= 1 << self.random.randrange(8)
            path.write_bytes(data)


class Mounted(Operations):  # type: ignore[misc]  # the library has no types
    """The disk as the kernel asks for it."""

    use_ns = True
    """Times are in nanoseconds."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self._open: dict[int, File] = {}
        self._handles = 0
        if "/" not in disk.files:
            disk.add("/", stat.S_IFDIR | 0o755)
            disk.sync_all()

    def _file(self, path: str) -> File:
        if path not in self.disk.files:
            raise FuseOSError(errno.ENOENT)
        return self.disk.files[path]

    def getattr(self, path: str, _handle: int | None = None) -> dict[str, Any]:
        """Return what `stat` shows; a look at `.power` switches the disk off."""
        if path == POWER:
            self.disk.lose_power()
            os._exit(0)
        file = self._file(path)
        who = {"st_uid": os.getuid(), "st_gid": os.getgid(), "st_nlink": 1}
        times = dict.fromkeys(("st_atime", "st_mtime", "st_ctime"), file.changed)
        return {"st_mode": file.mode, "st_size": len(file.data), **who, **times}

    def readdir(self, path: str, _handle: int) -> list[str]:
        """Return the names in a folder."""
        begin = path.rstrip("/") + "/"
        below = (it.removeprefix(begin) for it in self.disk.files if it.startswith(begin))
        return [*DOTS, *(name for name in below if name and "/" not in name)]

    def mkdir(self, path: str, mode: int) -> None:
        """Make a folder."""
        self.disk.add(path, stat.S_IFDIR | mode)

    def rmdir(self, path: str) -> None:
        """Remove a folder."""
        if len(self.readdir(path, 0)) > len(DOTS):
            raise FuseOSError(errno.ENOTEMPTY)
        self.disk.name((path, None))

    def create(self, path: str, mode: int, _fi: object = None) -> int:
        """Make a file, and open it."""
        return self._opened(self.disk.add(path, stat.S_IFREG | mode))

    def open(self, path: str, flags: int) -> int:
        """Open a file, and empty it if that is asked."""
        if flags & os.O_TRUNC:
            self.truncate(path, 0)
        return self._opened(self._file(path))

    def _opened(self, file: File) -> int:
        self._handles += 1
        self._open[self._handles] = file
        return self._handles

    def release(self, _path: str, handle: int) -> None:
        """Close a file."""
        del self._open[handle]

    def read(self, _path: str, size: int, offset: int, handle: int) -> bytes:
        """Read bytes."""
        return bytes(self._open[handle].data[offset : offset + size])

    def write(self, _path: str, data: bytes, offset: int, handle: int) -> int:
        """Write bytes, of which nothing is on the disk yet."""
        file = self._open[handle]
        self.disk.fail()
        self.disk.grow(offset + len(data) - len(file.data))
        file.change(offset, bytes(data))
        return len(data)

    def truncate(self, path: str, length: int, handle: int | None = None) -> None:
        """Cut or lengthen a file."""
        file = self._file(path) if handle is None else self._open[handle]
        self.disk.grow(length - len(file.data))
        file.change(length, None)

    def unlink(self, path: str) -> None:
        """Remove a file."""
        self._file(path)
        self.disk.name((path, None))

    def rename(self, old: str, new: str) -> None:
        """Rename a file or a folder."""
        self._file(old)
        self.disk.rename(old, new)

    def chmod(self, path: str, mode: int) -> None:
        """Change the mode."""
        file = self._file(path)
        file.mode = stat.S_IFMT(file.mode) | stat.S_IMODE(mode)
        self.disk.name((path, file))

    def chown(self, path: str, _uid: int, _gid: int) -> None:
        """Leave the owner: there is one user."""
        self._file(path)

    def utimens(self, path: str, times: tuple[int, int] | None = None) -> None:
        """Change the time."""
        self._file(path).changed = times[1] if times else time.time_ns()

    def fsync(self, _path: str, _datasync: int, handle: int) -> None:
        """Bring a file to the disk."""
        self.disk.sync(self._open[handle])

    def fsyncdir(self, _path: str, _datasync: int, _handle: int) -> None:
        """Bring names to the disk."""
        self.disk.sync(None)

    def statfs(self, _path: str) -> dict[str, int]:
        """Return its size."""
        free = max(0, self.disk.rules.size - sum(len(it.data) for it in self.disk.files.values()))
        blocks = {"f_blocks": self.disk.rules.size // 4096, "f_bfree": free // 4096}
        return {"f_bsize": 4096, "f_frsize": 4096, **blocks, "f_bavail": free // 4096}

    def destroy(self, _path: str) -> None:
        """Be unmounted: nothing is lost."""
        self.disk.sync_all()


@click.command()
@click.argument("place", type=click.Path(path_type=Path, file_okay=False))
@click.argument("mount", type=click.Path(path_type=Path, file_okay=False))
@click.option("--seed", default=1)
@click.option("--failing", default=0.0, help="The part of writes and syncs that end with EIO.")
@click.option("--size", default=1 << 40, help="Bytes until it is full.")
@click.option("--lying", is_flag=True, help="Sync nothing, and say so.")
@click.option("--flips", default=0, help="Bits that flip when the power fails.")
def main(
    place: Path, mount: Path, *, seed: int, failing: float, size: int, lying: bool, flips: int
) -> None:
    """Serve the disk whose synced part is in PLACE at the folder MOUNT, until it is unmounted or its power fails."""
    place.mkdir(exist_ok=True)
    disk = Disk(place, Random(seed), Rules(failing, size, lying, flips))
    # one request at a time: what is written follows from what is asked, and from the seed
    FUSE(Mounted(disk), str(mount), foreground=True, nothreads=True)


if __name__ == "__main__":
    sys.exit(main())
