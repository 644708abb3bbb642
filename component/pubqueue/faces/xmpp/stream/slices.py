"""Reads input in slices, because a stanza of a thousand items takes some milliseconds and other work has to run in between.

After each slice, reading pauses for as long as the slice took. Otherwise the thread that runs the batches would wait for the interpreter:
50 ms of work took 350 ms while the loop only read (measured with `make pauses`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

SLICE: Final = 16_384
"""Bytes of a slice. A longer request for a single item is read at once if it is complete, which is fastest."""

TURN: Final = 0.004
"""Seconds of work after which the next slice is postponed; hundreds of small requests take that long."""

_END: Final = b"</iq>"
_ITEM: Final = b"<item"


class Slices:
    """Passes bytes to `read`, which returns whether the next slice may follow; if not, `go_on` continues later."""

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
        """Read the waiting bytes after this many seconds."""
        if self._unread and self._turn is None:
            self._turn = self._loop.call_later(rest, self._read_slice)

    def take_out(self) -> bytes:
        """Remove and return the unread bytes."""
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
        """Remove and return the next slice, which ends at the end of a request if possible."""
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
