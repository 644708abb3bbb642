"""XML streams of the load generator: read by expat, written as ready-made bytes.

It must be cheaper than the measured program, so it builds no trees: it keeps only the names in a stanza, the attributes
of its outermost element and the one item id in it.
"""

from __future__ import annotations

import asyncio
import base64
from typing import TYPE_CHECKING, Final, NamedTuple
from xml.parsers import expat

if TYPE_CHECKING:
    from collections.abc import Callable

ITEM_DEPTH: Final = 4  # message, event, items, item
HEADER: Final = (
    "<?xml version='1.0'?><stream:stream xmlns='{ns}' version='1.0' {address}"
    " xmlns:stream='http://etherx.jabber.org/streams'>"
)


class BenchError(RuntimeError):
    """The measurement cannot continue; the message gives the reason."""


class Stanza(NamedTuple):
    """The kept parts of an element directly below the stream."""

    name: str
    attributes: dict[str, str]
    names: list[str]  # of all elements in it, in document order
    event: str  # the name of the element in the position of an item: item, retract
    item: str  # and its id


class Scanner:
    """Cuts a stream into stanzas."""

    def __init__(self, on_stanza: Callable[[Stanza], None], on_end: Callable[[], None]) -> None:
        self._on_stanza = on_stanza
        self._on_end = on_end
        self._depth = 0
        self._name = self._event = self._item = ""
        self._attributes: dict[str, str] = {}
        self._names: list[str] = []
        parser = expat.ParserCreate()
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        self._parser = parser

    def feed(self, data: bytes) -> None:
        """Read on; pass on every complete stanza before returning."""
        self._parser.Parse(data, False)  # noqa: FBT003 - not the last piece

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        depth = self._depth
        if depth == 1:
            self._name, self._attributes = name, attributes
            self._names, self._event, self._item = [], "", ""
        elif depth:
            self._names.append(name)
            if depth == ITEM_DEPTH and "id" in attributes:
                self._event, self._item = name, attributes["id"]
        else:
            self._on_stanza(Stanza(name, attributes, [], "", ""))
        self._depth = depth + 1

    def _end(self, _name: str) -> None:
        self._depth -= 1
        if self._depth == 1:
            self._on_stanza(
                Stanza(self._name, self._attributes, self._names, self._event, self._item)
            )
        elif self._depth == 0:
            self._on_end()


class Stream(asyncio.Protocol):
    """One connection; incoming stanzas wait for `next` until `on_stanza` is set."""

    def __init__(self) -> None:
        self._inbox: asyncio.Queue[Stanza | None] = asyncio.Queue()
        self._unheard: list[Stanza] = []
        self.on_stanza: Callable[[Stanza], None] = self._inbox.put_nowait
        self.on_lost: Callable[[], None] = lambda: self._inbox.put_nowait(None)
        self._loop = asyncio.get_running_loop()
        self._pending: list[bytes] = []
        self.reopen()

    def reopen(self) -> None:
        """Expect a new stream header on the same connection."""
        self._scanner = Scanner(self._heard, self._answer_end)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Keep the transport."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Read on."""
        self._scanner.feed(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Notify the listener."""
        self.on_lost()

    def listen(self, on_stanza: Callable[[Stanza], None], on_lost: Callable[[], None]) -> None:
        """Pass on incoming stanzas from now on, after the messages that came while an answer was awaited."""
        self.on_stanza, self.on_lost = on_stanza, on_lost
        unheard, self._unheard = self._unheard, []
        for stanza in unheard:
            on_stanza(stanza)
        while not self._inbox.empty():
            if (late := self._inbox.get_nowait()) is not None:
                on_stanza(late)

    def write(self, data: bytes) -> None:
        """Send, together with everything else that is written in this turn of the event loop."""
        if not self._pending:
            self._loop.call_soon(self._flush)
        self._pending.append(data)

    def close(self) -> None:
        """Close the connection."""
        self.on_lost = lambda: None
        self._transport.close()

    async def next(self, what: str, *names: str) -> Stanza:
        """Return the next element with one of these names; raise BenchError for an error."""
        async with asyncio.timeout(20):
            while (stanza := await self._inbox.get()) is not None:
                if stanza.name in names:
                    return stanza
                if stanza.name in ("stream:error", "failure"):
                    break
                if stanza.name == "message":
                    self._unheard.append(stanza)
        raise BenchError(f"{what} failed: {'closed' if stanza is None else stanza.names}")

    async def ask(self, iq_id: str, iq: bytes) -> None:
        """Send a request and wait for its result."""
        self.write(iq)
        while (answer := await self.next(iq_id, "iq")).attributes.get("id") != iq_id:
            pass
        if answer.attributes["type"] != "result":
            raise BenchError(f"{iq_id} was refused: {answer.names}")

    def _heard(self, stanza: Stanza) -> None:
        self.on_stanza(stanza)

    def _answer_end(self) -> None:
        """End our direction of the stream too (RFC 6120 4.4)."""
        self.write(b"</stream:stream>")

    def _flush(self) -> None:
        self._transport.write(b"".join(self._pending))
        self._pending.clear()


async def log_in(host: str, port: int, jid: str, password: str) -> Stream:
    """Open a client stream without TLS: SASL PLAIN (RFC 4616), resource binding."""
    name, _, rest = jid.partition("@")
    domain, _, resource = rest.partition("/")
    header = HEADER.format(ns="jabber:client", address=f"to='{domain}'").encode()
    _, stream = await asyncio.get_running_loop().create_connection(Stream, host, port)
    stream.write(header)
    await stream.next("the stream", "stream:features")
    secret = base64.b64encode(f"\0{name}\0{password}".encode()).decode()
    sasl = "xmlns='urn:ietf:params:xml:ns:xmpp-sasl'"
    stream.write(f"<auth {sasl} mechanism='PLAIN'>{secret}</auth>".encode())
    await stream.next(f"the login of {jid}", "success")
    stream.reopen()
    stream.write(header)
    await stream.next("the stream", "stream:features")
    bind = f"<bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'><resource>{resource}</resource></bind>"
    await stream.ask("bind", f"<iq type='set' id='bind'>{bind}</iq>".encode())
    return stream
