"""A connection in memory: two transports, each in the event loop of its own protocol; these may run in two threads."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    Loop = asyncio.AbstractEventLoop
    Buffer = bytes | bytearray | memoryview


class End(asyncio.Transport):
    """One end: what is written here is read at the other end, in order, in the next turn of the loop there.

    It accepts any amount at once. When one end closes, the other reads what was written before, and is lost then.
    """

    def __init__(self, loop: Loop, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self._loop, self._protocol = loop, protocol
        self._other: End | None = None
        self._closing = self._lost = self._paused = False
        self._unread: list[bytes] = []

    def join(self, other: End) -> None:
        """Connect it to the other end; once, before anything is written."""
        self._other, other._other = other, self

    def post(self, call: Callable[[], None]) -> None:
        """Call this in the loop of this end; do nothing if that loop is closed."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(call)

    def write(self, data: Buffer) -> None:
        """Make the other end read it."""
        other, copy = self._other, bytes(data)
        if other is not None and not self._closing:
            other.post(lambda: other.take(copy))

    def take(self, data: bytes) -> None:
        """Read the bytes, or keep them as long as reading is paused."""
        if self._paused:
            self._unread.append(data)
        elif not self._lost:
            self._protocol.data_received(data)

    def close(self) -> None:
        """Write nothing more, and end the connection at both ends. Closing twice does no harm."""
        other = self._other
        if not self._closing and other is not None:
            self._closing = True
            other.post(other.lose)
            self.post(self.lose)

    def abort(self) -> None:
        """Close: no bytes wait here to be written."""
        self.close()

    def lose(self) -> None:
        """Mark the end as lost, and report that once."""
        self._closing = True
        if not self._lost:
            self._lost = True
            self._protocol.connection_lost(None)

    def is_closing(self) -> bool:
        """Return whether nothing more can be written."""
        return self._closing

    def pause_reading(self) -> None:
        """Keep the bytes that arrive."""
        self._paused = True

    def resume_reading(self) -> None:
        """Read the kept bytes, and those that arrive."""
        self._paused = False
        unread, self._unread = self._unread, []
        for data in unread:
            self.take(data)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Do nothing: all bytes have been written."""

    def get_write_buffer_size(self) -> int:
        """Return 0: all bytes have been written."""
        return 0

    def can_write_eof(self) -> bool:
        """Return False: a connection is closed as a whole."""
        return False


def connect(near: Loop, client: asyncio.Protocol, far: Loop, server: asyncio.Protocol) -> End:
    """Connect a client, in whose loop this is called, to a server in its own loop; return the client's end."""
    here, there = End(near, client), End(far, server)
    here.join(there)
    there.post(lambda: server.connection_made(there))
    client.connection_made(here)
    return here
