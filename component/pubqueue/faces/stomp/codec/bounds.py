"""The maximum sizes of a frame."""

from __future__ import annotations

from msgspec import Struct


class FrameBounds(Struct, frozen=True, kw_only=True):
    """The limits of a reader. It never keeps more of an unfinished frame than these together."""

    headers: int = 128
    """Header lines of a frame."""
    line: int = 8 * 1024
    """Bytes of a header line."""
    head: int = 64 * 1024
    """Bytes of the command and all header lines."""
    body: int = 256 * 1024
    """Bytes of the body."""
