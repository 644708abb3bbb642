"""Detects that the server throttles this account.

By default, Prosody and ejabberd read only a few kilobytes a second from each client, without reporting it: a busy
publisher or worker is then slow for no visible reason. So a ping is sent after enough bytes. The server answers pings
itself and in order, so the time until the answer is the time it takes to read the bytes before it.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
from math import inf
from typing import TYPE_CHECKING, Final

from pubqueue_xeps.log import log
from pubqueue_xeps.wire.ns import PING
from pubqueue_xeps.wire.xml_escape import quote

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    from pubqueue_xeps.client.timings import Timings

OFTEN: Final = 16 * 1024
"""The minimum number of bytes between two pings."""


class Pace:
    """Measures one stream."""

    def __init__(self, timings: Timings) -> None:
        self._timings = timings
        self._ids = (f"pace-{secrets.token_hex(4)}-{n}" for n in itertools.count(1))
        self._asked = ""
        self._at = 0.0
        self._behind = self._sent = 0
        self._late = False
        self._logged_at = -inf
        self._timer: asyncio.TimerHandle | None = None

    def sent(self, byte_count: int, server: str) -> bytes:
        """Count bytes that are being sent; return what to send after them."""
        self._sent += byte_count
        if self._asked or self._sent < OFTEN:
            return b""
        loop = asyncio.get_running_loop()
        self._asked, self._at, self._late = next(self._ids), loop.time(), False
        self._behind, self._sent = self._sent, 0
        self._timer = loop.call_later(self._timings.stall, self._be_late)
        ping = f"<ping xmlns='{PING}'/>"
        return f"<iq type='get' id='{self._asked}' to={quote(server)}>{ping}</iq>".encode()

    def read(self, stanza: Element, jid: str) -> bool:
        """Read the answer to our ping, of any kind; return False for another stanza."""
        if not self._asked or stanza.get("id") != self._asked:
            return False
        now = asyncio.get_running_loop().time()
        if self._late and now >= self._logged_at + self._timings.refresh:
            self._logged_at = now
            log.warning(
                "server.slow", jid=jid, octets=self._behind, seconds=round(now - self._at, 1)
            )
        self.cut()
        return True

    def cut(self) -> None:
        """Drop the ping: it is answered, or the stream is lost."""
        self._asked = ""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _be_late(self) -> None:
        # an answer that has come while the loop stood still is read before any timer
        self._late = True
