"""Who serves from a file: each process holds the lock of a file of its own beside it, as long as it lives.

The system takes the lock away with the process, however that ends. The file itself stays until its process has left in
order: so one that is there, and not locked, tells of a process that died.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from pubqueue.app.ports import Instance, StoreError
from pubqueue.stores.sqlite.alone import number_file, numbered, see_that_it_is_nobodys
from pubqueue.stores.sqlite.private import MINE

if TYPE_CHECKING:
    from pathlib import Path

    from pubqueue.stores.sqlite.opened_file import OpenedFile

MOST: Final = 64
"""Processes on one file, at most."""


class Instances:
    """Implements `pubqueue.app.ports.Instances` by the locks of files beside the store's file `path`.

    `opened` is the file that the store has opened there.
    """

    def __init__(self, path: Path, opened: OpenedFile) -> None:
        self._path = path
        self._opened = opened
        self._held: dict[int, int] = {}

    async def enter(self) -> Instance:
        """Take the first number that no living process has.

        Raises:
            FencedError: what is there is no more the file that was opened.
            StoreError: all are taken, no file can be made, or what is there is not to be served from.

        """
        return await asyncio.to_thread(self._enter)

    async def abandoned(self) -> list[int]:
        """Take the numbers of processes that died."""
        return await asyncio.to_thread(self._abandoned)

    async def hear(self, patience: float) -> None:
        """Let the time pass: nobody speaks here."""
        await asyncio.sleep(patience)

    async def leave(self, number: int) -> None:
        """Give a number back: its file is removed."""
        if number in self._held:
            with suppress(OSError):
                self._file(number).unlink()
            self._let_go(number)

    def close(self) -> None:
        """Let go of all numbers, as if the process had died."""
        for number in list(self._held):
            self._let_go(number)

    def _enter(self) -> Instance:
        try:
            for number in range(MOST):
                if number not in self._held and (fresh := self._take(number)) is not None:
                    self._see_that_it_may_be_served(number, fresh=fresh)
                    return Instance(number, died=not fresh)
        except OSError as problem:
            raise StoreError(str(problem)) from problem
        raise StoreError(f"{MOST} processes serve from {self._path} already")

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

    def _abandoned(self) -> list[int]:
        try:
            others = sorted(set(self._there()) - self._held.keys())
            return [number for number in others if self._take(number, make=False) is not None]
        except OSError as problem:
            raise StoreError(str(problem)) from problem

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
        self._held[number] = descriptor
        return fresh

    def _is_still(self, number: int, descriptor: int) -> bool:
        """Say whether the locked file is the one of that name: who left has removed theirs."""
        try:
            there = self._file(number).stat()
        except FileNotFoundError:
            return False
        mine = os.fstat(descriptor)
        return (there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino)

    def _let_go(self, number: int) -> None:
        os.close(self._held.pop(number))

    def _file(self, number: int) -> Path:
        return number_file(self._path, number)

    def _there(self) -> list[int]:
        return numbered(self._path)
