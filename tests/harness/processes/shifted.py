"""`python shifted.py FILE serve ...`: pubqueue on a machine whose clock was set.

The calendar clock, not the monotonic one, is off by the number of seconds in the file at any time.
"""

from __future__ import annotations

import mmap
import struct
import sys
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NUMBER: Final = struct.Struct("q")


def set_clock(file: Path, seconds: int) -> None:
    """Set the clock of programs that were started, or will be, with this file."""
    if not file.exists():
        file.write_bytes(NUMBER.pack(seconds))
    with file.open("r+b") as opened, mmap.mmap(opened.fileno(), NUMBER.size) as shared:
        NUMBER.pack_into(shared, 0, seconds)


def shift(file: str) -> None:
    """Shift this process's clock."""
    with open(file, "r+b") as opened:
        shared = mmap.mmap(opened.fileno(), NUMBER.size)

    def shifted(clock: Callable[[], int], unit: int) -> Callable[[], int]:
        return lambda: clock() + NUMBER.unpack_from(shared)[0] * unit

    time.time, time.time_ns = shifted(time.time, 1), shifted(time.time_ns, 10**9)


if __name__ == "__main__":
    _, file, *command = sys.argv
    shift(file)
    from pubqueue.cli import main  # its clock has to be the shifted one

    main(command)
