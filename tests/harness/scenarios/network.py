"""The transport of stanzas between the cast of a scenario and the service."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Final, Protocol

from harness.servers.stub_server import ACCEPT, on_a_stream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from harness.scenarios.scenario import Scenario
    from harness.servers.stub_server import Stanza, StubServer
    from lxml import etree

    Heard = tuple[str, Stanza]

PROBE: Final = """
<iq type='set' id='{id}' from='{probe}' to='{service}'>
  <pubsub xmlns='http://jabber.org/protocol/pubsub'>
    <unsubscribe node='no such node' jid='{probe}'/>
  </pubsub>
</iq>"""
PRESENCE: Final = f"{{{ACCEPT}}}presence"
MESSAGE: Final = f"{{{ACCEPT}}}message"
ROUNDS: Final = 2
"""The first answer comes after all earlier requests; the second after their consequences."""


class Network(Protocol):
    """The path of stanzas; entities have their names in the scenario."""

    is_in_order: bool
    """Whether a round trip shows everything that is on its way, also what third parties say by themselves. If not, time leaps no
    further than it runs meanwhile."""

    async def say(self, who: str, stanza: etree._Element) -> None:
        """Send a stanza of `who`."""

    async def hear(self) -> Heard:
        """Return the next stanza to one of the cast, and its receiver."""

    def round_trip(self) -> AsyncIterator[Heard]:
        """Have the service answer, in its own order of work; yield all earlier stanzas."""

    def forgive(self, expected: etree._Element, actual: etree._Element) -> None:
        """Apply the changes that this network is known to make to the expectation."""

    async def log_out(self, who: str) -> None:
        """End the stream of `who`: no stanza can reach it, and its server notifies those it knew."""

    async def log_in(self, who: str) -> None:
        """Let `who` have a stream again."""

    async def cut(self) -> None:
        """Cut the component's connection; return when it is back."""


GONE: Final = """
<message type='error' id='{id}' from='{jid}' to='{service}'>
  <error type='cancel'><service-unavailable xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error>
</message>"""
NOBODY: Final = """
<iq type='error' id='{id}' from='{jid}' to='{service}'>
  <error type='cancel'><service-unavailable xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error>
</iq>"""
PONG: Final = "<iq type='result' id='{id}' from='{jid}' to='{service}'/>"
IS_PING: Final = re.compile(r"pq-(?:ping|disco)-\d+-\d+")
LEFT: Final = "<presence type='unavailable' from='{jid}' to='{service}'/>"


class Stub:
    """The stub server sends and receives for the cast; a bare JID is the first entity with it.

    For entities without a stream it acts as servers do: it bounces messages and requests, and reports to
    the service that an entity has left that had sent it presence. Pings (XEP-0199) are answered as by a client.
    """

    is_in_order = True

    def __init__(self, scenario: Scenario, server: StubServer) -> None:
        self._cast = scenario.cast
        self._service = scenario.service
        self._server = server
        self._numbers = itertools.count(1)
        self._probe = f"probe@{scenario.service.partition('.')[2]}/probe"
        self._available: set[str] = set()
        self._out: set[str] = set()

    async def say(self, who: str, stanza: etree._Element) -> None:
        if stanza.tag == PRESENCE and stanza.get("type") in {None, "unavailable"}:
            (self._available.discard if stanza.get("type") else self._available.add)(who)
        await self._server.send(on_a_stream(stanza))

    async def hear(self) -> Heard:
        while True:
            stanza = await self._server.receive()
            if heard := await self._delivered(stanza):
                return heard

    async def round_trip(self) -> AsyncIterator[Heard]:
        for _ in range(ROUNDS):
            probe_id = f"probe-{next(self._numbers)}"
            text = PROBE.format(id=probe_id, probe=self._probe, service=self._service)
            await self._server.send(text)
            while (stanza := await self._server.receive()).tree.get("id") != probe_id:
                if heard := await self._delivered(stanza):
                    yield heard

    def forgive(self, expected: etree._Element, actual: etree._Element) -> None:
        """Change nothing: every byte is the service's."""

    async def log_out(self, who: str) -> None:
        self._out.add(who)
        if who in self._available:
            self._available.discard(who)
            await self._server.send(LEFT.format(jid=self._cast[who], service=self._service))

    async def log_in(self, who: str) -> None:
        self._out.discard(who)

    async def cut(self) -> None:
        await self._server.drop()
        await self._server.connected()

    async def _delivered(self, stanza: Stanza) -> Heard | None:
        who = self._addressee(stanza.tree.get("to", ""))
        is_ping = IS_PING.fullmatch(stanza.tree.get("id", ""))
        if who not in self._out and not is_ping:
            return who, stanza
        if stanza.tree.tag == MESSAGE:
            back = GONE
        else:
            assert stanza.tree.get("type") == "get", (
                f"{who} left with a question open: {stanza.raw}"
            )
            back = NOBODY if who in self._out else PONG
        names = {"id": stanza.tree.get("id"), "jid": stanza.tree.get("to")}
        await self._server.send(back.format(**names, service=self._service))
        return None

    def _addressee(self, jid: str) -> str:
        for name, known in self._cast.items():
            if known == jid:
                return name
        for name, known in self._cast.items():
            if known.partition("/")[0] == jid:
                return name
        message = f"a stanza to {jid}, who is not in this scenario"
        raise AssertionError(message)
