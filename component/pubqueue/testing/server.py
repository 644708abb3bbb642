"""As much of an XMPP server as workers, publishers and the component need, in memory."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
import secrets
from contextlib import suppress
from dataclasses import dataclass
from html import unescape
from typing import TYPE_CHECKING, Final, Protocol, cast
from xml.parsers import expat
from xml.sax.saxutils import escape, quoteattr

from pubqueue.faces.xmpp.stream.expat import ExpatFeeder
from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    from collections.abc import Callable

    Loop = asyncio.AbstractEventLoop
    Buffer = bytes | bytearray | memoryview


# As much of an XMPP server as workers, publishers and the component need, in one event loop and without a socket.
#
# Clients log in with SASL PLAIN (RFC 6120 6) as any account of the domain with the one password, and
# bind a resource (7). The component connects by XEP-0114. Stanzas are passed on unchanged, with the
# sender's address; a stanza to an address that is not connected is refused, as deliveries to a former
# worker have to be. A client that disconnects, in any way, becomes unavailable to those to whom it
# had sent presence (RFC 6121 4.5, 4.6). There is no roster, no storage, and no federation.

STREAM: Final = (
    "<?xml version='1.0'?><stream:stream xmlns='{}' xmlns:stream='http://etherx.jabber.org/streams'"
    " version='1.0' from='{}' id='{}'>"
)
MECHANISMS: Final = (
    "<stream:features><mechanisms xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><mechanism>PLAIN</mechanism></mechanisms>"
    "</stream:features>"
)
BIND: Final = "<stream:features><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></stream:features>"
SUCCESS: Final = "<success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>"
FAILURE: Final = (
    "<failure xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><not-authorized/></failure></stream:stream>"
)
ERROR: Final = (
    "<stream:error><{} xmlns='urn:ietf:params:xml:ns:xmpp-streams'/></stream:error></stream:stream>"
)
_RESOURCE: Final = re.compile(r"<resource>([^<]*)</resource>")
_TEXT: Final = re.compile(r">([^<]*)<")


class Station(Protocol):
    """A connected address."""

    def give(self, stanza: bytes) -> None:
        """Receive a stanza."""


class Server:
    """Passes stanzas on between the clients of `domain` and the component at `service`.

    `on_stanza` is called after each stanza that was delivered.
    """

    def __init__(
        self, domain: str, service: str, password: str, *, on_stanza: Callable[[], None]
    ) -> None:
        self.domain, self.service, self.password = domain, service, password
        self._on_stanza = on_stanza
        self.component: Station | None = None
        self.others: dict[str, Callable[[Stanza], object]] = {}
        """What passes stanzas on to other services, by their addresses; each has a server in a loop of its own."""
        self.home: Callable[[Stanza], object] | None = None
        """What passes them on to the server that has the clients, if this one is such another."""
        self.clients: dict[str, Station] = {}
        """By full JID."""

    def route(self, stanza: Stanza) -> None:
        """Pass a stanza on to its addressee; `from` has to be the sender's."""
        station, elsewhere = self._at(stanza.to), self._elsewhere(stanza.to)
        if station is None and elsewhere is not None:
            elsewhere(stanza)
        elif station is not None:
            station.give(stanza.written())
        elif stanza.asks or (stanza.name == "message" and stanza.type != "error"):
            back = self._at(stanza.attributes["from"])
            if back is not None:
                back.give(stanza.refused())
        self._on_stanza()

    def cut_off(self) -> None:
        """End the streams of all clients that have logged in."""
        for station in list(self.clients.values()):
            if isinstance(station, ClientStream):
                station.cut_off("system-shutdown")

    def _elsewhere(self, address: str) -> Callable[[Stanza], object] | None:
        bare = address.partition("/")[0]
        return self.others.get(bare) or (None if bare == self.service else self.home)

    def _at(self, address: str) -> Station | None:
        if address.partition("/")[0] == self.service:
            return self.component
        if "/" in address:
            return self.clients.get(address)
        return next(
            (there for jid, there in self.clients.items() if jid.startswith(f"{address}/")), None
        )


class _Stream(asyncio.Protocol):
    """One connection, from the opening of its stream to its end."""

    namespace: str

    def __init__(self, server: Server) -> None:
        self._server = server
        self._id = secrets.token_hex(8)
        self._frames = Frames(self._open, self._take)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start (asyncio calls it)."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Continue to read, and answer the end of the stream with the end of ours (asyncio calls it)."""
        frames = self._frames
        frames.feed(data)
        if frames.closed and not self._transport.is_closing():
            self._write("</stream:stream>")
            self._transport.close()

    def give(self, stanza: bytes) -> None:
        """Send a stanza."""
        self._transport.write(stanza)

    def end(self, condition: str) -> None:
        """End the stream with an error."""
        self._write(ERROR.format(condition))
        self._transport.close()

    def _write(self, text: str) -> None:
        self._transport.write(text.encode())

    def _open(self, _header: dict[str, str]) -> None:
        self._write(STREAM.format(self.namespace, self._server.domain, self._id))

    def _take(self, raw: str) -> None:
        raise NotImplementedError


class ComponentStream(_Stream):
    """The component's (XEP-0114)."""

    namespace = ns.COMPONENT

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  asyncio's signature
        """Disconnect it (asyncio calls it)."""
        self._server.component = None

    def _take(self, raw: str) -> None:
        if self._server.component is self:
            self._server.route(read(raw))
            return
        expected = hashlib.sha1(f"{self._id}{self._server.password}".encode()).hexdigest()  # noqa: S324  XEP-0114's
        if f">{expected}<" not in raw:
            self.end("not-authorized")
            return
        self._server.component = self
        self._write("<handshake/>")


class ClientStream(_Stream):
    """A client's (RFC 6120)."""

    namespace = ns.CLIENT

    def __init__(self, server: Server) -> None:
        super().__init__(server)
        self._account = ""
        self._jid = ""
        self._notified: set[str] = set()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  asyncio's signature
        """Disconnect it, and send unavailable presence to those to whom it was available (asyncio calls it)."""
        if self._server.clients.get(self._jid) is self:
            del self._server.clients[self._jid]
            self._leave()

    def cut_off(self, condition: str) -> None:
        """End the stream with an error, and disconnect at once."""
        if self._server.clients.get(self._jid) is self:
            del self._server.clients[self._jid]
        self._leave()
        self.end(condition)

    def _leave(self) -> None:
        gone, self._notified = self._notified, set()
        for to in sorted(gone):
            words = {"from": self._jid, "to": to, "type": "unavailable"}
            self._server.route(Stanza("presence", words, "/>"))

    def _open(self, header: dict[str, str]) -> None:
        super()._open(header)
        self._write(BIND if self._account else MECHANISMS)

    def _take(self, raw: str) -> None:
        stanza = read(raw)
        if self._jid:
            self._pass_on(stanza)
        elif not self._account:
            self._log_in(raw)
        else:
            self._bind(stanza)

    def _log_in(self, raw: str) -> None:
        found = _TEXT.search(raw)
        _, name, password = (base64.b64decode(found[1]) if found else b"").split(b"\0")
        if password.decode() != self._server.password:
            self._write(FAILURE)
            self._transport.close()
            return
        self._account = f"{name.decode()}@{self._server.domain}"
        self._write(SUCCESS)
        self._frames = Frames(self._open, self._take)  # the stream restarts (RFC 6120 6.4.6)

    def _bind(self, stanza: Stanza) -> None:
        wanted = _RESOURCE.search(stanza.rest)
        jid = f"{self._account}/{wanted[1] if wanted else secrets.token_hex(4)}"
        former = self._server.clients.get(jid)
        if isinstance(former, ClientStream):  # RFC 6120 7.7.2.2, as servers do
            former.cut_off("conflict")
        self._jid = jid
        self._server.clients[jid] = self
        self._write(
            f"<iq type='result' id={quoteattr(stanza.attributes['id'])}>"
            f"<bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'><jid>{escape(jid)}</jid></bind></iq>"
        )

    def _pass_on(self, stanza: Stanza) -> None:
        stanza.attributes["from"] = self._jid
        to = stanza.to
        if stanza.name == "presence" and not to:
            if stanza.type == "unavailable":
                self._leave()
        elif to in {"", self._server.domain, self._account}:
            if stanza.asks:  # of the server itself, which supports nothing
                self.give(stanza.refused())
        else:
            if stanza.name == "presence":
                (self._notified.discard if stanza.type else self._notified.add)(to)
            self._server.route(stanza)


# A stream of XML as a server reads it: cut into its first-level elements, each with its bytes as they came.

_TAG: Final = re.compile(rb"""(?:[^>'"]|'[^']*'|"[^"]*")*>""")


class Frames:
    """Cuts a stream into its first-level elements, keeping the bytes of each."""

    def __init__(
        self, on_open: Callable[[dict[str, str]], None], on_child: Callable[[str], None]
    ) -> None:
        self._on_open = on_open
        self._on_child = on_child
        self._expat = expat.ParserCreate()
        self._expat_feeder = ExpatFeeder(self._expat)
        self._expat.StartElementHandler = self._start
        self._expat.EndElementHandler = self._end
        self._buffer = b""
        self._base = 0
        self._depth = 0
        self._from = 0
        self.closed = False
        """Whether the stream has ended."""

    def feed(self, data: bytes) -> None:
        """Continue to read; call the callbacks for the opening tag of the stream, and for each complete element.

        Raises:
            xml.parsers.expat.ExpatError: this is not XML.

        """
        self._buffer += data
        self._expat_feeder.feed(data)
        if self._depth:
            self._drop(self._expat.CurrentByteIndex if self._depth == 1 else self._from)

    def _start(self, _name: str, attributes: dict[str, str]) -> None:
        if self._depth == 0:
            self._on_open(attributes)
        if self._depth == 1:
            self._from = self._expat.CurrentByteIndex
        self._depth += 1

    def _end(self, _name: str) -> None:
        self._depth -= 1
        if self._depth == 0:
            self.closed = True
        if self._depth == 1:
            self._on_child(self._buffer[self._from - self._base : self._stop()].decode())

    def _stop(self) -> int:
        """Return where the element ends: expat's position is before `</a>`, but after `<a/>`."""
        here = self._expat.CurrentByteIndex - self._base
        opening = _TAG.match(self._buffer, self._from - self._base)
        if opening and opening.end() == here and opening[0].endswith(b"/>"):
            return here
        return self._buffer.index(b">", here) + 1

    def _drop(self, index: int) -> None:
        self._buffer = self._buffer[index - self._base :]
        self._base = index


# A connection in memory: two transports, each in the event loop of its own protocol; these may run in two threads.


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


# A stanza as it is passed on: its start tag is rewritten, the rest is unchanged byte for byte.

_START: Final = re.compile(r"""<([a-z]+)((?:\s+[\w:.-]+\s*=\s*(?:'[^']*'|"[^"]*"))*)\s*(/?>)""")
_ATTRIBUTE: Final = re.compile(r"""([\w:.-]+)\s*=\s*(?:'([^']*)'|"([^"]*)")""")


@dataclass(frozen=True, slots=True)
class Stanza:
    """A first-level element of a stream; `rest` begins with the end of its start tag."""

    name: str
    attributes: dict[str, str]
    rest: str

    @property
    def to(self) -> str:
        """The addressee; empty: the sender's own server."""
        return self.attributes.get("to", "")

    @property
    def type(self) -> str:
        """The attribute, empty if there is none."""
        return self.attributes.get("type", "")

    @property
    def asks(self) -> bool:
        """Whether it has to be answered (RFC 6120 8.2.3)."""
        return self.name == "iq" and self.type in {"get", "set"}

    def written(self) -> bytes:
        """Return it as it is sent on a stream of any namespace."""
        tag = "".join(f" {name}={quoteattr(value)}" for name, value in self.attributes.items())
        return f"<{self.name}{tag}{self.rest}".encode()

    def refused(self) -> bytes:
        """Return the error for an addressee that is not connected (RFC 6120 8.3)."""
        address = "".join(
            f" {name}={quoteattr(self.attributes[other])}"
            for name, other in (("id", "id"), ("from", "to"), ("to", "from"))
            if other in self.attributes
        )
        return (
            f"<{self.name} type='error'{address}><error type='cancel'>"
            "<service-unavailable xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/>"
            f"</error></{self.name}>"
        ).encode()


def read(raw: str) -> Stanza:
    """Read an element whose name has no prefix; its own declaration of a default namespace is dropped.

    Raises:
        ValueError: its name has a prefix.

    """
    found = _START.match(raw)
    if found is None:
        raise ValueError(f"not a stanza that can be passed on: {raw[:80]}")
    attributes = {
        name: unescape(single or double)
        for name, single, double in _ATTRIBUTE.findall(found[2])
        if name != "xmlns"
    }
    return Stanza(found[1], attributes, found[3] + raw[found.end() :])
