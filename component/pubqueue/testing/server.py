"""As much of an XMPP server as workers, publishers and the component need, in one event loop and without a socket.

Clients log in with SASL PLAIN (RFC 6120 6) as any account of the domain with the one password, and
bind a resource (7). The component connects by XEP-0114. Stanzas are passed on unchanged, with the
sender's address; a stanza to an address that is not connected is refused, as deliveries to a former
worker have to be. A client that disconnects, in any way, becomes unavailable to those to whom it
had sent presence (RFC 6121 4.5, 4.6). There is no roster, no storage, and no federation.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
import secrets
from typing import TYPE_CHECKING, Final, Protocol, cast
from xml.sax.saxutils import escape, quoteattr

from pubqueue.testing.frames import Frames
from pubqueue.testing.stanzas import Stanza, read
from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    from collections.abc import Callable

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
        self.clients: dict[str, Station] = {}
        """By full JID."""

    def route(self, stanza: Stanza) -> None:
        """Pass a stanza on to its addressee; `from` has to be the sender's."""
        station = self._at(stanza.to)
        if station is not None:
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
