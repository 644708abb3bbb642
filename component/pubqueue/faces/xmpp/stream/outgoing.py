"""The way out of the stream: collects the stanzas of one turn of the event loop, writes them at once, and notices a server that does not read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from pubqueue.faces.xmpp.stream.expat_feeder import READ_AT_ONCE, padding

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from pubqueue.engine.observe import Traffic

log = structlog.get_logger(__name__)

FLUSH_BYTES: Final = 65_536
"""Bytes that are written before the turn is over, so that a server that does not read is noticed in time."""

HIGH_WATER_BYTES: Final = 262_144
"""Bytes waiting for the socket above which nothing is written that can wait, until a quarter of them is left."""

MAX_UNSENT_BYTES: Final = 2 << 20
"""Bytes waiting for the socket above which no work is accepted: the server does not read."""

LONG: Final = 1.0
"""Seconds without reading after which a warning is logged; shorter pauses are part of every burst."""


class Outgoing:
    """The bytes of one stream. `on_stalled` is called if the server does not read, `on_reads` when it reads again."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        traffic: Traffic,
        *,
        on_stalled: Callable[[], None],
        on_reads: Callable[[], None],
    ) -> None:
        self._loop, self._traffic = loop, traffic
        self._on_stalled, self._on_reads = on_stalled, on_reads
        self.transport: asyncio.WriteTransport | None = None
        """The connection, as long as the server has accepted us."""
        self.is_clogged = False
        """Whether data that can wait is held back."""
        self._stalled: float | None = None
        self._out: list[bytes] = []
        self._gathered = 0
        self._flushing = False

    def clear(self) -> None:
        """Drop the collected bytes: the connection is lost."""
        self._out.clear()
        self._gathered = 0
        self.transport, self.is_clogged, self._stalled = None, False, None

    def write(self, stanza: bytes, size: int = 0, white: int | None = None) -> bool:
        """Send a stanza after all earlier ones; return False if there is no stream to send it on.

        `size` is its number of bytes, if it is known; `white` is how much white space follows it, None if that is to
        be computed.
        """
        if self.transport is None:
            return False
        self._out.append(stanza)
        size = size or len(stanza)
        if white is None:
            white = padding(stanza) if size > READ_AT_ONCE else 0
        if white:
            self._out.append(b" " * white)
        self._gathered += size + white
        if self._gathered > FLUSH_BYTES:
            self.flush()
        elif not self._flushing:
            self._flushing = True
            self._loop.call_soon(self.flush)
        return True

    def flush(self) -> None:
        """Write the collected bytes."""
        self._flushing = False
        if self._out and self.transport is not None:
            self._traffic.bytes_out += self._gathered
            self.transport.write(b"".join(self._out))
            if self.is_clogged:
                self._check()
        self._out.clear()
        self._gathered = 0

    def clog(self) -> None:
        """Hold back data that can wait, while the server does not read."""
        self.is_clogged = True
        self._check()

    def _check(self) -> None:
        """Report a server that apparently does not read, because too many bytes wait."""
        waiting = 0 if self.transport is None else self.transport.get_write_buffer_size()
        if waiting > MAX_UNSENT_BYTES and self._stalled is None:
            self._stalled = self._loop.time()
            self._on_stalled()

    def unclog(self) -> None:
        """Continue: the server reads again."""
        self.is_clogged = False
        if self._stalled is not None:
            if (seconds := self._loop.time() - self._stalled) > LONG:
                log.warning("stream.stalled", seconds=round(seconds, 1))
            self._stalled = None
            self._on_reads()
