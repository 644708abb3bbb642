"""Reads input in slices: a stanza of a thousand items is some milliseconds of work, and other work has turns in between.

After each turn the loop rests from reading as long as that took. The batches run in a thread beside
it, which would otherwise wait for the interpreter: 50 ms of work took 350 ms beside a loop that
only read (measured with `make pauses`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

SLICE: Final = 16_384
"""Bytes that are read at once. A longer request about a single item is read whole if all of it is there: that is fastest."""

TURN: Final = 0.004
"""Seconds from which on no further slice is read at once; hundreds of small requests take as long."""

_END: Final = b"</iq>"
_ITEM: Final = b"<item"


class Slices:
    """Hands bytes to `read`, which returns whether the next slice may follow; if not, `go_on` does so later."""

    def __init__(self, loop: asyncio.AbstractEventLoop, read: Callable[[bytes], bool]) -> None:
        self._loop, self._read = loop, read
        self._unread = b""
        self._turn: asyncio.TimerHandle | None = None

    def __bool__(self) -> bool:
        """Return whether bytes wait."""
        return bool(self._unread)

    def take(self, data: bytes) -> None:
        """Read a slice at once, unless others wait."""
        waits = bool(self._unread)
        self._unread += data
        if not waits:
            self._read_slice()

    def go_on(self, rest: float = 0.0) -> None:
        """Read what waits after this many seconds."""
        if self._unread and self._turn is None:
            self._turn = self._loop.call_later(rest, self._read_slice)

    def take_out(self) -> bytes:
        """Return what has not been read, and forget it."""
        unread, self._unread = self._unread, b""
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None
        return unread

    def _read_slice(self) -> None:
        self._turn = None
        began = self._loop.time()
        while self._read(self._take_slice()):
            took = self._loop.time() - began
            if not self._unread or took > TURN:
                self.go_on(took)
                return

    def _take_slice(self) -> bytes:
        """Take out the next slice, which ends where a request does, if one does."""
        size = self._size()
        data, self._unread = self._unread[:size], self._unread[size:]
        return data

    def _size(self) -> int:
        if len(self._unread) <= SLICE:
            return len(self._unread)
        end = self._unread.rfind(_END, 0, SLICE)
        if end < 0:
            end = self._unread.find(_END, SLICE)
            if self._unread.count(_ITEM, 0, end) > 1:
                return SLICE
        return SLICE if end < 0 else end + len(_END)
