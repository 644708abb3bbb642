"""The instances on a file: each process holds the lock of its own file next to it, as long as it lives.

The system releases the lock when the process ends, however it ends. The file itself stays until its process leaves in
order. So a file that exists and is not locked is that of a process that died.

The file contains the epoch under which the process has its number, and the time when it was last alive, written once a
second without a sync. A process that hangs keeps its lock and writes nothing. Then another process writes its own epoch
there, while it holds the writer's lock of the store. Each batch checks that the epoch is still that of its process. So a
process that wakes up commits nothing more, and enters again.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import secrets
import sqlite3
import struct
import time
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from pubqueue.engine.ports import FencedError, Instance, StoreError, UnreachableStoreError
from pubqueue.model.entities import is_number
from pubqueue.stores.sql.columns import LEASE, LeaseWatch, since_start
from pubqueue.stores.sqlite.connection import MINE
from pubqueue.stores.sqlite.schema import ServedError, check_current

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from pubqueue.stores.sqlite.connection import OpenedFile

    Excluding = Callable[[Callable[[], bool]], Awaitable[bool]]


LOOK_AGAIN: Final = 0.5
"""Seconds between two checks whether another process has written. They bound the delay until its items reach our clients."""

MAX_INSTANCES: Final = 64
"""The maximum number of processes on one file."""

EPOCH: Final = 8
"""Bytes of an epoch: it is random, so that it is unique."""

WORD: Final = struct.Struct(f"<{EPOCH}sd")
"""The contents of a file: the epoch, and the seconds since the machine was started."""


class _Held(NamedTuple):
    """A number that this process has: its open file, and the epoch that has to be in it."""

    descriptor: int
    epoch: bytes

    @property
    def is_ours(self) -> bool:
        return os.pread(self.descriptor, EPOCH, 0) == self.epoch


class Instances:
    """Implements `pubqueue.engine.ports.Instances` by the locks of files next to the store's file `path`.

    `opened` is the file that the store has opened there. `excluding` runs a job while no other process writes to the store.
    """

    def __init__(self, path: Path, opened: OpenedFile, excluding: Excluding) -> None:
        self._path = path
        self._opened = opened
        self._excluding = excluding
        self._held: dict[int, _Held] = {}
        self._number: int | None = None
        self._own: _Held | None = None
        self._watch = LeaseWatch()

    async def enter(self) -> Instance:
        """Take the first number that no living process has.

        Raises:
            FencedError: the path is no longer the file that was opened.
            UnreachableStoreError: the disk is full.
            StoreError: all numbers are taken, no file can be made, or the store may not be served from.

        """
        found = await asyncio.to_thread(self.enter_now)
        self._number, self._own = found.number, self._held[found.number]
        return found

    async def renew(self) -> None:
        """Write a sign of life of this process.

        Raises:
            FencedError: another process has its number.

        """
        self.see_that_it_serves()
        try:
            for number, held in list(self._held.items()):
                if held.is_ours:
                    _write(held)
                elif number != self._number:
                    self._let_go(number)
            self._watch.touched()
        except OSError as problem:
            raise StoreError(str(problem)) from problem

    def see_that_it_serves(self) -> None:
        """Check that the number of this process, if it has one, is still its own. Each batch calls this, so it is cheap.

        Raises:
            FencedError: it is not.

        """
        if self._own is not None and not self._own.is_ours:
            raise FencedError(f"somebody else has taken the number {self._number} of this process")

    async def abandoned(self) -> list[int]:
        """Take the numbers of processes that died, or hang."""
        dead, silent = await asyncio.to_thread(self._abandoned)
        for number in silent:
            if await self._excluding(partial(self._fences, number)):
                dead.append(number)
        return sorted(dead)

    async def wait_for_change(self, patience: float) -> None:
        """Wait for some time, after which a look is worth while: there are no notifications here."""
        await asyncio.sleep(min(patience, LOOK_AGAIN))

    async def leave(self, number: int) -> None:
        """Free a number: its file is removed."""
        held = self._held.get(number)
        if held is not None:
            if held.is_ours and self._is_still(number, held.descriptor):
                with suppress(OSError):
                    self._file(number).unlink()
            self._let_go(number)

    def close(self) -> None:
        """Drop all numbers, as if the process had died."""
        for number in list(self._held):
            self._let_go(number)

    def enter_now(self) -> Instance:
        """Take the first free number; see `enter`."""
        try:
            for number in range(MAX_INSTANCES):
                if number not in self._held and (fresh := self._take(number)) is not None:
                    self._see_that_it_may_be_served(number, fresh=fresh)
                    return Instance(number, died=not fresh)
        except OSError as problem:
            is_full = problem.errno in (errno.ENOSPC, errno.EDQUOT)
            raise (UnreachableStoreError if is_full else StoreError)(str(problem)) from problem
        raise StoreError(f"{MAX_INSTANCES} processes serve from {self._path} already")

    def _see_that_it_may_be_served(self, number: int, *, fresh: bool) -> None:
        """Check the opened file again: this process may have waited for hours, while others have worked."""
        try:
            self._opened.check()
            see_that_it_is_nobodys(self._path)
        except StoreError:
            if fresh:
                self._file(number).unlink()
            self._let_go(number)
            raise

    def _abandoned(self) -> tuple[list[int], list[int]]:
        """Take and return the numbers of processes that died; also return those without a sign of life for long."""
        try:
            others = sorted(set(self._there()) - self._held.keys())
            dead = [number for number in others if self._take(number, make=False) is not None]
            if not self._watch.may_judge:
                return dead, []
            return dead, [number for number in others if number not in dead and self._hangs(number)]
        except OSError as problem:
            raise StoreError(str(problem)) from problem

    def _hangs(self, number: int) -> bool:
        """Return whether a process wrote no sign of life for the length of a lease; older versions write none at all."""
        try:
            word = self._file(number).read_bytes()
        except FileNotFoundError:
            return False
        return len(word) == WORD.size and since_start() - WORD.unpack(word)[1] > LEASE

    def _fences(self, number: int) -> bool:
        """Take the number of a process if it still hangs; return whether it does. No process writes to the store meanwhile."""
        try:
            if not self._hangs(number):
                return False
            descriptor = os.open(self._file(number), os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False
        self._hold(number, descriptor)
        return True

    def _take(self, number: int, *, make: bool = True) -> bool | None:
        """Lock the file of a number; return whether it is new. None: another process has it, or has just left."""
        flags = os.O_RDWR | os.O_CLOEXEC
        fresh = False
        try:
            if make:
                with suppress(FileExistsError):
                    descriptor = os.open(self._file(number), flags | os.O_CREAT | os.O_EXCL, MINE)
                    fresh = True
            if not fresh:
                descriptor = os.open(self._file(number), flags)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        if not self._is_still(number, descriptor):
            os.close(descriptor)
            return None
        self._hold(number, descriptor)
        return fresh

    def _hold(self, number: int, descriptor: int) -> None:
        held = _Held(descriptor, secrets.token_bytes(EPOCH))
        try:
            _write(held)
        except OSError:
            os.close(descriptor)  # and its lock ends
            raise
        self._held[number] = held

    def _is_still(self, number: int, descriptor: int) -> bool:
        """Return whether the locked file still has that name: a process that left has removed its file."""
        try:
            there = self._file(number).stat()
        except FileNotFoundError:
            return False
        mine = os.fstat(descriptor)
        return (there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino)

    def _let_go(self, number: int) -> None:
        if number == self._number:
            self._number = self._own = None
        os.close(self._held.pop(number).descriptor)

    def _file(self, number: int) -> Path:
        return number_file(self._path, number)

    def _there(self) -> list[int]:
        return numbered(self._path)


def _write(held: _Held) -> None:
    """Write the epoch and a sign of life."""
    os.pwrite(held.descriptor, WORD.pack(held.epoch, since_start()), 0)


# Exclusive access to a store's file: no process serves from it meanwhile.
#
# A copy first locks a file for that purpose, and then checks whether a process has the lock of its number. A process first
# takes its number, and then checks whether that file is locked. So at least one of them detects the other.

POLL_INTERVAL: Final = 0.02
"""Seconds between two checks whether another process still has exclusive access."""


def numbered(path: Path) -> list[int]:
    """Return the numbers of the processes whose files exist, dead ones included."""
    start = f"{path.name}-instance-"
    names = (name.removeprefix(start) for name in os.listdir(path.parent) if name.startswith(start))
    return sorted(int(name) for name in names if is_number(name))


def number_file(path: Path, number: int) -> Path:
    """Return the file of the process that has this number."""
    return Path(f"{path}-instance-{number}")


def see_that_it_is_nobodys(path: Path) -> None:
    """Check that no process has exclusive access to the store, and that it is complete and on the schema of this program.

    Raises:
        StoreError: another process copies or migrates it now.
        ForeignStoreError: the file is an incomplete copy or not a store of ours, or another version has changed its schema.

    """
    if _is_had(path):
        raise StoreError(f"{path} is being copied; serve when that is done")
    uri = f"{path.absolute().as_uri()}?mode=rw"
    try:
        with closing(sqlite3.connect(uri, uri=True)) as connection:
            check_current(connection, path)
    except sqlite3.Error as problem:
        raise StoreError(f"{path}: {problem}") from problem


def _is_had(path: Path) -> bool:
    try:
        descriptor = os.open(_gate(path), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return not _locked(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


@contextmanager
def alone(path: Path, *, patience: float = 0.0) -> Iterator[None]:
    """Have exclusive access to the store; wait up to `patience` seconds for another process that has it.

    Raises:
        ServedError: a process serves from it.
        StoreError: another process has exclusive access, or the folder cannot be used.

    """
    gate = _gate(path)
    descriptor = _opened_gate(path, gate, patience)
    try:
        if any(_lives(number_file(path, number)) for number in numbered(path)):
            raise ServedError(f"{path}: a process serves from it; stop it first")
        yield
    finally:
        gate.unlink()
        os.close(descriptor)


def _opened_gate(path: Path, gate: Path, patience: float) -> int:
    """Return the descriptor of the gate file, locked for this process."""
    until = time.monotonic() + patience
    while True:
        try:
            descriptor = os.open(gate, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, MINE)
        except OSError as problem:
            raise StoreError(f"{path}: {problem.strerror}") from problem
        if _locked(descriptor, fcntl.LOCK_EX) and _is_still(gate, descriptor):
            return descriptor
        os.close(descriptor)
        if time.monotonic() >= until:
            raise StoreError(f"{path}: somebody copies it just now")
        time.sleep(POLL_INTERVAL)


def _gate(path: Path) -> Path:
    return Path(f"{path}-alone")


def _lives(file: Path) -> bool:
    try:
        descriptor = os.open(file, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return not _locked(descriptor, fcntl.LOCK_EX)
    finally:
        os.close(descriptor)


def _locked(descriptor: int, how: int) -> bool:
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_still(gate: Path, descriptor: int) -> bool:
    """Return whether the locked file still has that name: the last owner may have removed it."""
    try:
        return os.path.samestat(gate.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
