"""What carries stanzas between the cast of a scenario and the service."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final, Protocol

from harness.server import on_a_stream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from harness.scenario import Scenario
    from harness.server import Stanza, StubServer
    from lxml import etree

    Heard = tuple[str, Stanza]

PROBE: Final = """
<iq type='set' id='{id}' from='{probe}' to='{service}'>
  <pubsub xmlns='http://jabber.org/protocol/pubsub'>
    <unsubscribe node='no such node' jid='{probe}'/>
  </pubsub>
</iq>"""
ROUNDS: Final = 2
"""The first answer comes behind all that was asked before; the second behind what followed from it."""


class Network(Protocol):
    """The way of stanzas; entities are called by their names in the scenario."""

    async def say(self, who: str, stanza: etree._Element) -> None:
        """Send a stanza of `who`."""

    async def hear(self) -> Heard:
        """Return the next stanza to one of the cast, and to whom it came."""

    def round_trip(self) -> AsyncIterator[Heard]:
        """Have the service answer, in its own order of work; yield all that came before."""

    def forgive(self, expected: etree._Element, actual: etree._Element) -> None:
        """Make what this network is known to change on the way as the expectation has it."""

    async def cut(self) -> None:
        """Cut the component's connection; return when it is there again."""


class Stub:
    """The stub server speaks for the cast and hears for it; a bare JID is the first who has it."""

    def __init__(self, scenario: Scenario, server: StubServer) -> None:
        self._cast = scenario.cast
        self._service = scenario.service
        self._server = server
        self._numbers = itertools.count(1)
        self._probe = f"probe@{scenario.service.partition('.')[2]}/probe"

    async def say(self, _who: str, stanza: etree._Element) -> None:
        await self._server.send(on_a_stream(stanza))

    async def hear(self) -> Heard:
        stanza = await self._server.receive()
        return self._addressee(stanza.tree.get("to", "")), stanza

    async def round_trip(self) -> AsyncIterator[Heard]:
        for _ in range(ROUNDS):
            probe_id = f"probe-{next(self._numbers)}"
            text = PROBE.format(id=probe_id, probe=self._probe, service=self._service)
            await self._server.send(text)
            while (stanza := await self._server.receive()).tree.get("id") != probe_id:
                yield self._addressee(stanza.tree.get("to", "")), stanza

    def forgive(self, expected: etree._Element, actual: etree._Element) -> None:
        """Nothing: every byte is the service's."""

    async def cut(self) -> None:
        await self._server.drop()
        await self._server.connected(timeout=30)

    def _addressee(self, jid: str) -> str:
        for name, known in self._cast.items():
            if known == jid:
                return name
        for name, known in self._cast.items():
            if known.partition("/")[0] == jid:
                return name
        message = f"a stanza to {jid}, who is not in this scenario"
        raise AssertionError(message)
