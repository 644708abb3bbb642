"""Who serves from a file: each process holds the lock of a file of its own beside it, as long as it lives.

The system takes the lock away with the process, however that ends. The file itself stays until its process has left in
order: so one that is there, and not locked, tells of a process that died.

In it are the epoch under which the process has its number, and when it was last alive, written once a second without a
sync. A process that hangs keeps its lock and says nothing: then another writes an epoch of its own there, while it holds the
writer's lock of the store; and each batch looks whether the epoch is still the one of its process. So whoever wakes up
commits nothing more, and enters again.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import secrets
import struct
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from pubqueue.app.store.ports import FencedError, Instance, StoreError
from pubqueue.stores.sql.leases import LEASE, LeaseWatch, since_start
from pubqueue.stores.sqlite.exclusive_access import number_file, numbered, see_that_it_is_nobodys
from pubqueue.stores.sqlite.file_mode import MINE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from pubqueue.stores.sqlite.opened_file import OpenedFile

    Excluding = Callable[[Callable[[], bool]], Awaitable[bool]]

LOOK_AGAIN: Final = 0.5
"""Seconds until another look at whether somebody else has written: items reach the clients of another process so soon."""

MAX_INSTANCES: Final = 64
"""Processes on one file, at most."""

EPOCH: Final = 8
"""Bytes of an epoch: it is drawn, so that nobody has one twice."""

WORD: Final = struct.Struct(f"<{EPOCH}sd")
"""What is in a file: the epoch, and the seconds since the machine was started."""


class _Held(NamedTuple):
    """A number that this process has: its file, open, and the epoch that has to be in it."""

    descriptor: int
    epoch: bytes

    @property
    def is_ours(self) -> bool:
        return os.pread(self.descriptor, EPOCH, 0) == self.epoch


class Instances:
    """Implements `pubqueue.app.store.ports.Instances` by the locks of files beside the store's file `path`.

    `opened` is the file that the store has opened there. `excluding` does a job while nobody else writes to the store.
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
            FencedError: what is there is no more the file that was opened.
            StoreError: all are taken, no file can be made, or what is there is not to be served from.

        """
        found = await asyncio.to_thread(self._enter)
        self._number, self._own = found.number, self._held[found.number]
        return found

    async def renew(self) -> None:
        """Write that this process lives.

        Raises:
            FencedError: its number is another's.

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
        """See that the number of this process, if it has one, is still its own; asked in each batch, so it has to cost little.

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

    async def hear(self, patience: float) -> None:
        """Let some time pass, after which it is worth a look: nobody speaks here."""
        await asyncio.sleep(min(patience, LOOK_AGAIN))

    async def leave(self, number: int) -> None:
        """Give a number back: its file is removed."""
        held = self._held.get(number)
        if held is not None:
            if held.is_ours and self._is_still(number, held.descriptor):
                with suppress(OSError):
                    self._file(number).unlink()
            self._let_go(number)

    def close(self) -> None:
        """Let go of all numbers, as if the process had died."""
        for number in list(self._held):
            self._let_go(number)

    def _enter(self) -> Instance:
        try:
            for number in range(MAX_INSTANCES):
                if number not in self._held and (fresh := self._take(number)) is not None:
                    self._see_that_it_may_be_served(number, fresh=fresh)
                    return Instance(number, died=not fresh)
        except OSError as problem:
            raise StoreError(str(problem)) from problem
        raise StoreError(f"{MAX_INSTANCES} processes serve from {self._path} already")

    def _see_that_it_may_be_served(self, number: int, *, fresh: bool) -> None:
        """Look once more at what was opened: this process may have waited since, for hours, and others have not."""
        try:
            self._opened.check()
            see_that_it_is_nobodys(self._path)
        except StoreError:
            if fresh:
                self._file(number).unlink()
            self._let_go(number)
            raise

    def _abandoned(self) -> tuple[list[int], list[int]]:
        """Take the numbers of those that died, and return them, and those of which nothing was heard for long."""
        try:
            others = sorted(set(self._there()) - self._held.keys())
            dead = [number for number in others if self._take(number, make=False) is not None]
            if not self._watch.may_judge:
                return dead, []
            return dead, [number for number in others if number not in dead and self._hangs(number)]
        except OSError as problem:
            raise StoreError(str(problem)) from problem

    def _hangs(self, number: int) -> bool:
        """Say whether a process has not said for the length of a lease that it lives; an older program says nothing at all."""
        try:
            word = self._file(number).read_bytes()
        except FileNotFoundError:
            return False
        return len(word) == WORD.size and since_start() - WORD.unpack(word)[1] > LEASE

    def _fences(self, number: int) -> bool:
        """Take the number of a process that hangs; say whether it still does. Nobody writes to the store meanwhile."""
        try:
            if not self._hangs(number):
                return False
            descriptor = os.open(self._file(number), os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False
        self._hold(number, descriptor)
        return True

    def _take(self, number: int, *, make: bool = True) -> bool | None:
        """Lock the file of a number; say whether it is new. None: another process has it, or has just left."""
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
        _write(held)
        self._held[number] = held

    def _is_still(self, number: int, descriptor: int) -> bool:
        """Say whether the locked file is the one of that name: who left has removed theirs."""
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
    """Write the epoch, and that its process lives."""
    os.pwrite(held.descriptor, WORD.pack(held.epoch, since_start()), 0)
