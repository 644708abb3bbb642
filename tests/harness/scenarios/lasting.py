"""The network of a scenario whose service lives on: those of earlier scenarios are gone, and its nodes go with it."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, ClassVar, Final
from xml.sax.saxutils import quoteattr

from harness.scenarios.network import Stub

if TYPE_CHECKING:
    from harness.scenarios.network import Heard
    from harness.servers.stub_server import Stanza
    from lxml import etree

_VERSIONS: Final = "versions of an app are known for longer than the nodes that they were for"
_NUMBERS: Final = "events are numbered over all nodes"
_RATES: Final = "it shows how much was done in the last five minutes"

OWN_STORE: Final = {
    "commands-overview": _RATES,
    "commands-pause": _RATES,
    "events-of-a-transaction": _NUMBERS,
    "events-of-time-and-absence": _NUMBERS,
    "headers-in-a-transaction": _VERSIONS,
    "txn-commit": _VERSIONS,
    "txn-immediate": _VERSIONS,
    "txn-plain-node": _VERSIONS,
    "txn-restart": _VERSIONS,
    "txn-taken-ids": _VERSIONS,
}
"""Scenarios that need a store of their own, each with the reason."""

ASK: Final = "<iq type='{kind}' id='{id}' from='{by}' to='{service}'>{child}</iq>"
NODES: Final = "<query xmlns='http://jabber.org/protocol/disco#items'/>"
DELETE: Final = (
    "<pubsub xmlns='http://jabber.org/protocol/pubsub#owner'><delete node={node}/></pubsub>"
)


class Lasting(Stub):
    """As `Stub`; accounts that are not in the scenario have no session."""

    CONFIG: ClassVar[str] = 'admins = ["janitor@elsewhere.example"]\n'
    """By it the janitor of the service may delete all nodes."""
    _by: ClassVar[str] = "janitor@elsewhere.example/broom"
    _ids: ClassVar[itertools.count[int]] = itertools.count(1)

    async def end(self) -> None:
        """End all sessions, and delete all nodes."""
        for who in self._cast:
            await self.log_out(who)
        found = await self._ask("get", NODES)
        for one in found.iterfind("{*}query/{*}item"):
            await self._ask("set", DELETE.format(node=quoteattr(one.get("node", ""))))
        assert not len((await self._ask("get", NODES)).find("{*}query"))

    async def _ask(self, kind: str, child: str) -> etree._Element:
        name = f"broom-{next(self._ids)}"
        words = {"kind": kind, "id": name, "by": self._by, "service": self._service}
        await self._server.send(ASK.format(child=child, **words))
        while True:
            stanza = await self._server.receive()
            if stanza.tree.get("id") == name:
                assert stanza.tree.get("type") == "result", stanza.raw
                return stanza.tree
            await self._delivered(stanza)

    async def _delivered(self, stanza: Stanza) -> Heard | None:
        if stanza.tree.get("to") == self._service:  # an echo, which shows the service what was read
            await self._server.send(stanza.raw)
            return None
        return await super()._delivered(stanza)

    def _addressee(self, jid: str) -> str:
        try:
            return super()._addressee(jid)
        except AssertionError:
            self._out.add(jid)
            return jid
