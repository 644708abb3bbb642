"""The server's side of XEP-0114 on a loopback port, for one component at a time.

The component under test connects here as it would to Prosody or ejabberd. The test then acts for
every entity of the network: it sends stanzas as text and awaits the stanzas of the component, in
order. Faults for which a real server would end the stream are reported as `StreamError`: a `from`
outside the component's domain, a missing `to`, a stanza in a foreign namespace (XEP-0114 3). Every
stanza has to be valid by the schemas, too.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self
from xml.parsers import expat

from harness.patience import TIMEOUT
from harness.stanzas.schema import ACCEPT, validate_own
from lxml import etree

from pubqueue.testing.server import Frames

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

STREAMS: Final = "http://etherx.jabber.org/streams"
ROOT: Final = f"<stream:stream xmlns='{ACCEPT}' xmlns:stream='{STREAMS}'>"
STANZAS: Final = {f"{{{ACCEPT}}}{name}" for name in ("iq", "message", "presence")}


class StreamError(AssertionError):
    """The component sent something that a real server answers with a stream error."""


@dataclass(frozen=True, slots=True)
class Stanza:
    """One stanza of the component: the bytes as sent, and their tree."""

    raw: str
    tree: etree._Element


def parse(text: str) -> etree._Element:
    """Read one stanza as a child of the stream, so that it inherits its namespaces."""
    parser = etree.XMLParser(resolve_entities=False, remove_comments=True)
    (child,) = etree.fromstring(f"{ROOT}{text}</stream:stream>", parser)
    return child


def on_a_stream(stanza: etree._Element) -> str:
    """Write the stanza without the namespaces that its stream has declared already."""
    text = etree.tostring(stanza, encoding="unicode", with_tail=False)
    for declared in ROOT.removeprefix("<stream:stream").removesuffix(">").replace("'", '"').split():
        text = text.replace(f" {declared}", "", 1)
    return text


class StubServer:
    """Accepts `domain` with `secret`; sends text, awaits stanzas.

    Use as an async context manager. A new connection of the component replaces the old one, so that
    restarts and reconnects need nothing special. Instead of `receive`, a test can pass an `on_stanza`,
    and `on_lost` for the end of each connection; both are called in the order of the stream.
    """

    def __init__(
        self,
        domain: str = "queue.localhost",
        secret: str = "secret",
        *,
        validate: Callable[[etree._Element], None] = validate_own,
    ) -> None:
        self._validate = validate
        self.domain = domain
        self.secret = secret
        self.host = "127.0.0.1"
        self.condition = "not-authorized"
        """Its answer to components with another secret."""
        self.refused = 0
        self.accepted = 0
        self._stanzas: deque[Stanza] = deque()
        self.on_stanza: Callable[[Stanza], None] = self._stanzas.append
        self.on_lost: Callable[[], None] = lambda: None
        self._failure: Exception | None = None
        self._fan_out = asyncio.Condition()
        self._writer: asyncio.StreamWriter | None = None
        self._serving: set[asyncio.Task[None]] = set()
        self._reading: asyncio.Task[None] | None = None
        self._bytes_left: int | None = None

    async def __aenter__(self) -> Self:
        self._listener = await asyncio.start_server(self._serve, self.host, 0)
        self.port: int = self._listener.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._listener.close()
        await self.drop()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        await self._listener.wait_closed()

    async def send(self, text: str) -> None:
        """Give the component `text`, exactly as it stands."""
        assert self._writer, "no component is connected"
        self._writer.write(text.encode())
        await self._writer.drain()

    async def receive(self, timeout: float = TIMEOUT) -> Stanza:  # noqa: ASYNC109 - said per call
        """Return the next stanza of the component; raise any earlier fault of it."""
        async with asyncio.timeout(timeout), self._fan_out:
            await self._fan_out.wait_for(lambda: self._stanzas or self._failure)
        if self._stanzas:
            return self._stanzas.popleft()
        assert self._failure
        raise self._failure

    async def connected(self, timeout: float = TIMEOUT) -> None:  # noqa: ASYNC109 - said per call
        """Return once a component has been accepted and is still there."""
        async with asyncio.timeout(timeout), self._fan_out:
            await self._fan_out.wait_for(lambda: self._writer or self._failure)
        if self._failure:
            raise self._failure

    async def reconnected(self, accepted: int, timeout: float = TIMEOUT) -> None:  # noqa: ASYNC109
        """Return once components were accepted more often than `accepted` times."""
        async with asyncio.timeout(timeout), self._fan_out:
            await self._fan_out.wait_for(lambda: self.accepted > accepted)

    async def has_refused(self, times: int, timeout: float = TIMEOUT) -> None:  # noqa: ASYNC109
        """Return once components were refused at least this many times."""
        async with asyncio.timeout(timeout), self._fan_out:
            await self._fan_out.wait_for(lambda: self.refused >= times)

    @property
    def up(self) -> bool:
        """Whether a component is connected."""
        return self._writer is not None

    async def drop(self) -> None:
        """Cut the component's connection, as a server that dies does; return when arrived bytes are received."""
        writer, self._writer = self._writer, None
        if writer:
            writer.transport.abort()
        if self._reading:
            await asyncio.wait({self._reading})

    def drop_after(self, byte_count: int) -> None:
        """Cut the connection as soon as this many more bytes of the component have come."""
        self._bytes_left = byte_count

    def stop_reading(self) -> None:
        """Let the component's stanzas pile up, as a server that hangs does."""
        assert self._writer, "no component is connected"
        self._writer.transport.pause_reading()

    def read_on(self) -> None:
        """Resume reading."""
        assert self._writer, "no component is connected"
        self._writer.transport.resume_reading()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._serving.add(task)
        try:
            await self._read(reader, writer)
        except (AssertionError, expat.ExpatError, etree.XMLSyntaxError) as failure:
            await self._report(failure=failure)
        except (ConnectionError, asyncio.CancelledError):
            pass  # the component went away, or the test is over
        finally:
            writer.close()
            self._serving.discard(task)
            await self._report(lost=writer)

    async def _read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        found: list[str] = []
        opened: list[dict[str, str]] = []
        frames = Frames(opened.append, found.append)
        stream_id, accepted = secrets.token_hex(8), False
        while not frames.closed and (data := await reader.read(65536)):
            frames.feed(self._before_the_cut(data))
            for header in opened:
                writer.write(self._header(header, stream_id).encode())
            opened.clear()
            for raw in found:
                if accepted:
                    await self._report(stanza=self._checked(raw))
                elif self._accept(raw, stream_id, writer):
                    accepted = True
                    await self._report(writer=writer)
                else:
                    await self._report()
                    return
            found.clear()
            if self._bytes_left == 0:
                self._bytes_left = None
                writer.transport.abort()
                return

    def _before_the_cut(self, data: bytes) -> bytes:
        if self._bytes_left is None:
            return data
        kept = data[: self._bytes_left]
        self._bytes_left -= len(kept)
        return kept

    def _header(self, header: dict[str, str], stream_id: str) -> str:
        if header.get("to") != self.domain or header.get("xmlns") != ACCEPT:
            message = f"the stream was opened with {header}"
            raise StreamError(message)
        return f"<?xml version='1.0'?>{ROOT[:-1]} from='{self.domain}' id='{stream_id}'>"

    def _accept(self, raw: str, stream_id: str, writer: asyncio.StreamWriter) -> bool:
        expected = hashlib.sha1(f"{stream_id}{self.secret}".encode()).hexdigest()
        if parse(raw).tag == f"{{{ACCEPT}}}handshake" and parse(raw).text == expected:
            writer.write(b"<handshake/>")
            return True
        self.refused += 1
        writer.write(
            f"<stream:error><{self.condition} xmlns='urn:ietf:params:xml:ns:xmpp-streams'/>"
            "</stream:error></stream:stream>".encode()
        )
        return False

    def _checked(self, raw: str) -> Stanza:
        tree = parse(raw)
        if tree.tag not in STANZAS:
            message = f"not a stanza: {raw}"
            raise StreamError(message)
        if tree.get("from", "").partition("/")[0].rpartition("@")[2] != self.domain:
            message = f"from is not of {self.domain}: {raw}"
            raise StreamError(message)
        if not tree.get("to"):
            message = f"addressed to nobody: {raw}"
            raise StreamError(message)
        self._validate(tree)
        return Stanza(raw, tree)

    async def _report(
        self,
        *,
        stanza: Stanza | None = None,
        writer: asyncio.StreamWriter | None = None,
        lost: asyncio.StreamWriter | None = None,
        failure: Exception | None = None,
    ) -> None:
        async with self._fan_out:
            if stanza:
                self.on_stanza(stanza)
            if writer:
                self._writer, self._reading = writer, asyncio.current_task()
                self.accepted += 1
            if lost:
                self._writer = None if lost is self._writer else self._writer
                self.on_lost()
            self._failure = failure or self._failure
            self._fan_out.notify_all()
