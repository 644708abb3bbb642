"""Plays a conversation of urn:xmpp:qos, written down line by line, with one side of the library.

    > <iq type='set' id='{a}' to='queue.example.org'>...     what the library has to send, byte for byte
    < <iq type='result' id='{a}' from='queue.example.org'/>  what arrives
    -                                                        the stream is cut
    +                                                        a session starts

A name in braces stands for an id: the first time for any, and then for the same.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element, fromstring

from harness.patience import TIMEOUT, turns

if TYPE_CHECKING:
    from collections.abc import Callable

NAME = re.compile(r"\{(\w+)\}")


def read(text: str) -> Element:
    """Parse a stanza as it is on a client's stream."""
    return fromstring(f"<stream xmlns='jabber:client'>{text}</stream>")[0]


class ScriptedStream:
    """The stream of the library's side: keeps what is sent, in order."""

    def __init__(self, jid: str = "bot@example.org/one") -> None:
        self.jid = jid
        self.sent: asyncio.Queue[str] = asyncio.Queue()
        self.ids: dict[str, str] = {}

    def send_text(self, text: str) -> None:
        self.sent.put_nowait(text)

    async def play(
        self,
        script: str,
        feed: Callable[[Element], object],
        cut: Callable[[], object] = lambda: None,
        start: Callable[[], object] = lambda: None,
    ) -> None:
        """Play all lines of a script; at the end nothing more may have been sent."""
        for line in filter(None, map(str.strip, script.splitlines())):
            mark, text = line[0], line[1:].strip()
            if mark == ">":
                async with asyncio.timeout(TIMEOUT):
                    self.match(text, await self.sent.get())
            elif mark == "<":
                feed(read(self.said(text)))
            else:
                {"-": cut, "+": start}[mark]()
        await turns(1)
        assert self.sent.empty(), self.sent.get_nowait()

    def said(self, text: str) -> str:
        """Return a line with the ids that its names stand for."""
        return NAME.sub(lambda name: self.ids[name[1]], text)

    def match(self, wanted: str, sent: str) -> None:
        """Compare what was sent with a line, and note the ids that its names stand for."""
        parts = NAME.split(wanted)
        pattern = ""
        for number, part in enumerate(parts):
            if number % 2 == 0:
                pattern += re.escape(part)
            elif part in self.ids:
                pattern += re.escape(self.ids[part])
            else:
                pattern += f"(?P<{part}>[^'\"]+)"
        found = re.fullmatch(pattern, sent)
        assert found is not None, f"\nwanted {wanted}\nsent   {sent}"
        self.ids |= found.groupdict()
