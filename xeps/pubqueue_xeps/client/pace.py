"""Whether the server takes what is sent to it, or lets this account wait.

Prosody and ejabberd, as they are shipped, read no more than some kilobytes a second from each client, and say so to nobody: a
publisher or worker that does much is slow then, and nothing seems to be wrong. So now and then, when much was sent, the server is
asked for a ping behind it. The server answers by itself, in its turn, so what passes until then is the time that it takes to read
what was sent before.
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
"""Bytes that are sent between two pings at least."""


class Pace:
    """Measures one stream."""

    def __init__(self, timings: Timings) -> None:
        self._timings = timings
        self._ids = (f"pace-{secrets.token_hex(4)}-{n}" for n in itertools.count(1))
        self._asked = ""
        self._at = 0.0
        self._behind = self._sent = 0
        self._late = False
        self._told_at = -inf
        self._timer: asyncio.TimerHandle | None = None

    def sent(self, octets: int, server: str) -> bytes:
        """Count what is sent now; return what is to be sent behind it."""
        self._sent += octets
        if self._asked or self._sent < OFTEN:
            return b""
        loop = asyncio.get_running_loop()
        self._asked, self._at, self._late = next(self._ids), loop.time(), False
        self._behind, self._sent = self._sent, 0
        self._timer = loop.call_later(self._timings.stall, self._be_late)
        ping = f"<ping xmlns='{PING}'/>"
        return f"<iq type='get' id='{self._asked}' to={quote(server)}>{ping}</iq>".encode()

    def read(self, stanza: Element, jid: str) -> bool:
        """Take the answer to our ping, whatever it is; False if it is none."""
        if not self._asked or stanza.get("id") != self._asked:
            return False
        now = asyncio.get_running_loop().time()
        if self._late and now >= self._told_at + self._timings.refresh:
            self._told_at = now
            log.warning(
                "server.slow", jid=jid, octets=self._behind, seconds=round(now - self._at, 1)
            )
        self.cut()
        return True

    def cut(self) -> None:
        """Forget what was asked: it is answered, or the stream is lost."""
        self._asked = ""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _be_late(self) -> None:
        # an answer that has come while the loop stood still is read before any timer
        self._late = True
