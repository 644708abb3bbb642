"""A bare XMPP client on loopback: SASL PLAIN (RFC 4616), resource binding, stanzas as text.

There is no library between a scenario and the server, so that a story shows what is on the wire.
"""

from __future__ import annotations

import asyncio
import base64
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Self

from harness.patience import TIMEOUT
from harness.servers.stub_server import STREAMS, Frames, parse

from pubqueue.faces.xmpp.stream.expat import padding

if TYPE_CHECKING:
    from collections.abc import Callable

HEADER: Final = (
    "<?xml version='1.0'?><stream:stream xmlns='jabber:client' to='{domain}' version='1.0'"
    f" xmlns:stream='{STREAMS}'>"
)
AUTH: Final = "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>{word}</auth>"
BIND: Final = (
    "<iq type='set' id='bind'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'>"
    "<resource>{resource}</resource></bind></iq>"
)


class ClientError(AssertionError):
    """The server did not let the client in, or ended its stream."""


class Client:
    """One session of `jid`; after the login every first-level element goes to `on_element`."""

    def __init__(self, jid: str, on_element: Callable[[str], None]) -> None:
        self.jid = jid
        self._on_element = on_element
        self._greetings: asyncio.Queue[str] = asyncio.Queue()

    async def log_in(self, host: str, port: int, password: str) -> Self:
        """Return the JID with exactly the requested resource."""
        account, _, resource = self.jid.partition("/")
        user, _, domain = account.partition("@")
        header = HEADER.format(domain=domain)
        self._reader, self._writer = await asyncio.open_connection(host, port)
        self._hear = self._greetings.put_nowait
        self._frames = Frames(lambda _header: None, self._heard)
        self.reading = asyncio.create_task(self._read())
        word = base64.b64encode(f"\0{user}\0{password}".encode()).decode()
        await self._step(header, "features")
        await self._step(AUTH.format(word=word), "success")
        self._frames = Frames(lambda _header: None, self._heard)
        await self._step(header, "features")
        bound = await self._step(BIND.format(resource=resource), "iq")
        if self.jid not in bound:
            message = f"{self.jid} was bound as {bound}"
            raise ClientError(message)
        self._hear = self._on_element
        return self

    async def send(self, text: str) -> None:
        """Send a stanza that relies on the stream's namespaces; the server's expat is not to wait."""
        self.write(text)
        await self._writer.drain()

    def write(self, text: str) -> None:
        """Send a stanza as `send` does, without waiting until there is room for it."""
        data = text.encode()
        self._writer.write(data + b" " * padding(data))

    def stop_reading(self) -> None:
        """Let stanzas for us pile up at the server."""
        self._writer.transport.pause_reading()

    def read_on(self) -> None:
        """Resume reading."""
        self._writer.transport.resume_reading()

    async def log_out(self) -> None:
        """Close the stream in order; return when the server has closed it too, and the connection."""
        self._writer.write(b"</stream:stream>")
        async with asyncio.timeout(TIMEOUT):
            await self.reading
        self._writer.close()

    async def abandon(self) -> None:
        """Drop a stream that the server has ended, or that is not needed any more."""
        self.reading.cancel()
        await asyncio.gather(self.reading, return_exceptions=True)
        self._writer.close()
        with suppress(ConnectionError):
            await self._writer.wait_closed()

    async def _step(self, text: str, awaited: str) -> str:
        await self.send(text)
        async with asyncio.timeout(TIMEOUT):
            answer = await self._greetings.get()
        if not parse(answer).tag.endswith(f"}}{awaited}"):
            message = f"{self.jid} cannot log in: {answer}"
            raise ClientError(message)
        return answer

    def _heard(self, raw: str) -> None:
        self._hear(raw)

    async def _read(self) -> None:
        while not self._frames.closed and (data := await self._reader.read(65536)):
            self._frames.feed(data)
