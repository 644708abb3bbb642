"""Where the component is connected: to a real server, or only to this program."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol, Self

from harness.servers.ejabberd import Ejabberd

from bench.load import SERVICE, Party
from bench.wire import HEADER, Stanza, Stream, log_in
from pubqueue_demo.prosody import Prosody

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

PASSWORD: Final = "bench"
RESOURCE: Final = "bench"


class Place(Protocol):
    """An async context manager that the component attaches to, and parties with it."""

    component_port: int
    secret: str
    pid: int | None  # of the server, if that is a process of its own

    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *exc: object) -> None: ...

    async def parties(self, names: Sequence[str]) -> list[Party]:
        """Connect a client for each name, once the component is connected."""

    async def part(self, parties: Sequence[Party]) -> None:
        """Disconnect them."""


class Behind:
    """Behind a real server: one client stream for each party."""

    pid: int | None

    def __init__(self, server: Prosody | Ejabberd) -> None:
        self._server = server

    async def __aenter__(self) -> Self:
        server = await self._server.__aenter__()
        self.component_port, self.secret, self.pid = (
            server.component_port,
            server.secret,
            server.pid,
        )
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._server.__aexit__(None, None, None)

    async def parties(self, names: Sequence[str]) -> list[Party]:
        return [await self._party(name) for name in names]

    async def _party(self, name: str) -> Party:
        server = self._server
        jid = f"{await server.account(name, PASSWORD)}/{RESOURCE}"
        stream = await log_in(server.host, server.c2s_port, jid, PASSWORD)
        return Party(jid, stream, f"to='{SERVICE}'")

    async def part(self, parties: Sequence[Party]) -> None:
        for party in parties:
            party.stream.close()


class Direct:
    """No server: this program speaks the server's side of XEP-0114, for all parties.

    Any program that knows the port is accepted; only the form of the handshake is checked.
    """

    host = "127.0.0.1"
    secret = "direct"
    pid: int | None = None

    async def __aenter__(self) -> Self:
        self._accepted: asyncio.Future[Stream] = asyncio.get_running_loop().create_future()
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(lambda: _Accept(self._greeted), self.host, 0)
        self.component_port: int = self._listener.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._listener.close()
        await self._listener.wait_closed()

    def _greeted(self, stream: Stream) -> None:
        if self._accepted.done():
            self._accepted = asyncio.get_running_loop().create_future()
        self._accepted.set_result(stream)

    async def parties(self, names: Sequence[str]) -> list[Party]:
        stream = await self._accepted
        jids = [f"{name}@localhost/{RESOURCE}" for name in names]
        return [Party(jid, stream, f"to='{SERVICE}' from='{jid}'") for jid in jids]

    async def part(self, parties: Sequence[Party]) -> None:
        """Leave the stream to the component, which closes it cleanly."""
        parties[0].stream.on_lost = lambda: None


class _Accept(Stream):
    """The server's side of the handshake (XEP-0114 section 3)."""

    def __init__(self, greeted: Callable[[Stream], None]) -> None:
        super().__init__()
        self._greeted = greeted
        self._waiting = self.on_stanza
        self.on_stanza = self._handshake

    def _handshake(self, stanza: Stanza) -> None:
        if stanza.name == "stream:stream":
            address = f"from='{SERVICE}' id='direct'"
            self.write(HEADER.format(ns="jabber:component:accept", address=address).encode())
        elif stanza.name == "handshake":
            self.write(b"<handshake/>")
            self.on_stanza = self._waiting
            self._greeted(self)


PLACES: Final[Mapping[str, Callable[[], Place]]] = {
    "direct": Direct,
    "prosody": lambda: Behind(Prosody()),
    "ejabberd": lambda: Behind(Ejabberd()),
}
