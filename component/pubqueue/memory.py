"""What the C library keeps of freed memory, and gives back to the system."""

from __future__ import annotations

import ctypes
from contextlib import suppress
from typing import Final

M_MMAP_THRESHOLD: Final = -3
LARGE_BLOCK: Final = 1 << 20


def return_large_blocks() -> None:
    """Have glibc return each block of a mebibyte or more to the system as soon as it is freed.

    By itself it keeps blocks of up to 32 MiB for later: after some messages of 7 MB that were 70 MiB.
    """
    with suppress(OSError, AttributeError):  # another C library has no such option
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK)


def return_free_pages() -> None:
    """Have glibc return pages without a block in use to the system: many small ones have been freed together.

    By itself it returns only what is free at the end of its heap. It takes a millisecond or two.
    """
    with suppress(OSError, AttributeError):  # as above
        ctypes.CDLL(None).malloc_trim(0)
