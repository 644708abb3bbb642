"""The network of a real server: all of the cast are its clients, logged in with their resources.

Of the resources of one account, the first in the cast sends presence, so that the server delivers stanzas
for the account to it; the others do not, and get those for their full JIDs. An entity that was available
to the service becomes unavailable as clients do: it logs out, and the server notifies the service. It is
back at once, silently, so that a story may continue with it.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Final, Protocol, Self

from harness.clients.client import Client
from harness.patience import TIMEOUT
from harness.scenarios import relayed
from harness.scenarios.network import IS_PING, PONG, PRESENCE, PROBE, ROUNDS
from harness.servers.stub_server import on_a_stream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from types import TracebackType

    from harness.scenarios.network import Heard
    from harness.scenarios.scenario import Scenario
    from lxml import etree

PASSWORD: Final = "secret"


class Server(Protocol):
    """Where clients log in."""

    host: str
    c2s_port: int


class Real:
    """The cast on `server`, an async context manager; its accounts have to exist."""

    is_in_order = False  # the server may notify of who has left, or bounce a stanza, a little later

    def __init__(
        self, scenario: Scenario, server: Server, cut: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        self._cast = scenario.cast
        self._service = scenario.service
        self._server = server
        self._cut = cut
        self._clients: dict[str, Client] = {}
        self._available: set[str] = set()
        self._heard: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
        self._numbers = itertools.count(1)

    async def __aenter__(self) -> Self:
        async with asyncio.TaskGroup() as all_of_them:
            for who in self._cast:
                all_of_them.create_task(self.log_in(who))
        async for who, stanza in self.round_trip():
            message = f"{who} received at the login: {stanza.raw}"
            raise AssertionError(message)
        return self

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        async with asyncio.TaskGroup() as all_of_them:
            for client in self._clients.values():
                all_of_them.create_task(client.log_out())

    async def say(self, who: str, stanza: etree._Element) -> None:
        presence = stanza.get("type", "available") if stanza.tag == PRESENCE else None
        if presence == "unavailable" and who in self._available:
            await self.log_out(who)
            await self.log_in(who)
            return
        if presence == "available":
            self._available.add(who)
        await self._clients[who].send(on_a_stream(stanza))

    async def hear(self) -> Heard:
        while True:
            async with asyncio.timeout(TIMEOUT):
                who, raw = await self._heard.get()
            stanza = relayed.as_sent(raw, self._cast[who])
            if stanza is None:
                continue
            if not IS_PING.fullmatch(stanza.tree.get("id", "")):
                return who, stanza
            if who in self._clients:
                names = {"id": stanza.tree.get("id"), "jid": self._cast[who]}
                await self._clients[who].send(PONG.format(**names, service=self._service))

    async def round_trip(self) -> AsyncIterator[Heard]:
        """Let all of them send a request: stanzas keep their order only between the service and one client."""
        for _ in range(ROUNDS):
            asked = {f"probe-{next(self._numbers)}": who for who in self._clients}
            for probe_id, who in asked.items():
                text = PROBE.format(id=probe_id, probe=self._cast[who], service=self._service)
                await self._clients[who].send(text)
            while asked:
                who, stanza = await self.hear()
                if asked.get(stanza.tree.get("id", "")) == who:
                    del asked[stanza.tree.get("id", "")]
                else:
                    yield who, stanza

    def forgive(self, expected: etree._Element, actual: etree._Element) -> None:
        relayed.forgive(expected, actual)

    async def log_out(self, who: str) -> None:
        self._available.discard(who)
        await self._clients.pop(who).log_out()

    async def log_in(self, who: str) -> None:
        jid = self._cast[who]
        client = Client(jid, lambda raw: self._heard.put_nowait((who, raw)))
        self._clients[who] = await client.log_in(self._server.host, self._server.c2s_port, PASSWORD)
        account = jid.partition("/")[0]
        if jid == next(it for it in self._cast.values() if it.partition("/")[0] == account):
            await client.send("<presence/>")

    async def cut(self) -> None:
        assert self._cut, "this component's connection cannot be cut"
        await self._cut()
