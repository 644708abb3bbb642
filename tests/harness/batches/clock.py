"""The calendar of a program under test: it stands still, except for the time that a test lets pass.

A program in another process follows it by a file. So a lock of one second is not over because the
machine is slow: it is over when the test has waited for it.
"""

from __future__ import annotations

import mmap
import struct
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

NUMBER: Final = struct.Struct("q")
"""Nanoseconds: while it stands, the time since 1970, negated; while it runs, how far it is ahead of the machine's
monotonic clock, which is the same in all processes and cannot be set.
"""


class Clock:
    """Stands still from the beginning. With a `file` it is the clock of all processes that `follow` that file."""

    def __init__(self, file: Path | None = None) -> None:
        if file is None:
            self._shared = mmap.mmap(-1, NUMBER.size)
        else:
            file.write_bytes(NUMBER.pack(0))
            self._shared = _mapped(file)
        self._stand(time.time_ns())

    def now(self) -> float:
        """Return the seconds since 1970."""
        return _read(self._shared) / 10**9

    @contextmanager
    def running(self) -> Iterator[None]:
        """Let time pass within the body."""
        self._set(_read(self._shared) - time.monotonic_ns())
        try:
            yield
        finally:
            self._stand(_read(self._shared))

    def advance(self, seconds: float) -> None:
        """Advance by this much; tasks that wait for a moment may notice later."""
        self._stand(_read(self._shared) + round(seconds * 10**9))

    def _stand(self, at: int) -> None:
        self._set(-at)

    def _set(self, number: int) -> None:
        NUMBER.pack_into(self._shared, 0, number)


def follow(file: Path) -> None:
    """Use the clock of that file as this process's calendar; its monotonic clock is the machine's."""
    shared = _mapped(file)
    clocks: dict[str, Callable[[], float]] = {
        "time": lambda: _read(shared) / 10**9,
        "time_ns": lambda: _read(shared),
    }
    for name, clock in clocks.items():
        setattr(time, name, clock)


def _mapped(file: Path) -> mmap.mmap:
    with file.open("r+b") as opened:
        return mmap.mmap(opened.fileno(), NUMBER.size)


def _read(shared: mmap.mmap) -> int:
    (number,) = NUMBER.unpack_from(shared)
    return -number if number < 0 else time.monotonic_ns() + number
