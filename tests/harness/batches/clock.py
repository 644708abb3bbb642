"""The calendar of a program under test: it stands still, except for the time that a test lets pass.

A program in another process follows it by a file. So a lock of one second is not over because the
machine is slow: it is over when the test has let a second pass.
"""

from __future__ import annotations

import math
import mmap
import struct
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

NUMBER: Final = struct.Struct("q")
"""Nanoseconds since 1970."""


class Clock:
    """Stands still. With a `file` it is the clock of all processes that `follow` that file, each of which may advance it."""

    def __init__(self, file: Path | None = None) -> None:
        if file is None:
            self._shared = mmap.mmap(-1, NUMBER.size)
        else:
            with file.open("ab+") as opened:
                opened.truncate(NUMBER.size)
                self._shared = mmap.mmap(opened.fileno(), NUMBER.size)
        if not self.nanoseconds():
            self._set(time.time_ns())

    def nanoseconds(self) -> int:
        """Return the nanoseconds since 1970."""
        (number,) = NUMBER.unpack_from(self._shared)
        return int(number)

    def now(self) -> float:
        """Return the seconds since 1970."""
        return self.nanoseconds() / 10**9

    def advance(self, seconds: float) -> None:
        """Advance by this much, and no less; tasks that wait for a moment may notice later."""
        self._set(self.nanoseconds() + math.ceil(seconds * 10**9))

    def _set(self, number: int) -> None:
        NUMBER.pack_into(self._shared, 0, number)


def follow(file: Path) -> Clock:
    """Use the clock of that file as this process's calendar, and return it; its monotonic clock is the machine's."""
    clock = Clock(file)
    for name, reading in {"time": clock.now, "time_ns": clock.nanoseconds}.items():
        setattr(time, name, reading)
    return clock
