"""One case: a node is made as it says, the principal is brought to where it says, and asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from matrix import asks
from matrix.asks import ASKS, BOSS, FOREIGN, OWN
from matrix.table import NOBODY
from matrix.wire import said

if TYPE_CHECKING:
    from lxml.etree import _Element

    from matrix.table import Case
    from matrix.wire import Wire

ADMIN: Final = "admin@localhost"
UNSUPPORTED: Final = "feature-not-implemented (cancel) with unsupported "
UNKNOWN_MODEL: Final = "not-acceptable (modify) with unsupported-access-model"


class Trial:
    """A case on the wire, in a node of its own."""

    def __init__(self, wire: Wire, case: Case, node: str) -> None:
        self._wire = wire
        self._case = case
        self._node = node
        self._principal = f"{case.affiliation.replace('-', '')}@localhost/desk"
        self._account = self._principal.partition("/")[0]

    async def run(self, words: dict[str, str]) -> str:
        """Return "" if all is as the cell says, else what is not."""
        case = self._case
        await self._furnish()
        if f"access-{case.access}" not in self._wire.features:
            outcome = said(await self._configure())
            return "" if outcome == UNKNOWN_MODEL else f"{case.access} is not offered: {outcome}"
        reached = await self._bring_about()
        if case.expected == NOBODY:
            cannot = reached != case.subscription
            return "" if cannot else f"{case}: it is {reached}, and nobody can be that"
        if reached != case.subscription:
            return f"{case}: the subscription is {reached}"
        before = await self._state()
        outcome, expected = await self._ask(), words[case.expected]
        ask = ASKS[case.action]
        if ask.feature and ask.feature not in self._wire.features:
            expected = UNSUPPORTED + ask.feature
        if expected == "result":
            expected = case.expected
        elif before != (after := await self._state()):
            return f"{case}: refused, and yet it changed\n{before}\n{after}"
        return "" if outcome == expected else f"{case}: {outcome}, not {expected}\n  {case.line}"

    async def _ask(self) -> str:
        """Say what the case asks for; return the word of the outcome, or the error as it is."""
        ask = ASKS[self._case.action]
        answer = await self._say(self._principal, ask.type, ask.child)
        return ask.read(answer, self._node) if answer.get("type") == "result" else said(answer)

    async def _furnish(self) -> None:
        """Make the node, still open to all, with two items in it; a queue hands nothing out."""
        fields = {"pubsub#access_model": "open", "pubsub#publish_model": "open"}
        if self._case.kind == "queue":
            fields |= {"x-queueing#enabled": "1", "x-queueing#paused": "1"}
        configure = f"<configure>{asks.form('node_config', fields)}</configure>"
        await self._done(BOSS, asks.plain(f"<create node='{{node}}'/>{configure}"))
        await self._done(BOSS, asks.publish(FOREIGN))
        await self._done(self._principal, asks.publish(OWN))
        if self._case.action == "subscriptions-set":  # of the one subscription that is always there
            await self._done(BOSS, ASKS["subscribe"].child, jid=BOSS)

    async def _bring_about(self) -> str:
        """Bring the principal and the node to what they are in the case; return what its subscription is."""
        approving = self._case.access == "authorize"
        if approving or self._case.affiliation == "admin":
            await self._configure()
        if self._case.subscription != "no":
            await self._done(self._principal, ASKS["subscribe"].child)
        if approving and self._case.subscription == "yes":
            entry = f"<subscription jid='{self._principal}' subscription='subscribed'/>"
            subscriptions = f"<subscriptions node='{{node}}'>{entry}</subscriptions>"
            await self._done(BOSS, asks.owner(subscriptions))
        if self._case.affiliation not in {"admin", "none"}:
            entry = f"<affiliation jid='{self._account}' affiliation='{self._case.affiliation}'/>"
            affiliations = f"<affiliations node='{{node}}'>{entry}</affiliations>"
            await self._done(BOSS, asks.owner(affiliations))
        await self._configure()
        mine = await self._say(self._principal, "get", ASKS["mine"].child)
        states = [it.get("subscription") for it in mine.findall(".//{*}subscription")]
        return {"subscribed": "yes"}.get(states[0], states[0]) if states else "no"

    async def _configure(self) -> _Element:
        fields = {
            "pubsub#access_model": self._case.access,
            "pubsub#publish_model": self._case.publish,
        }
        form = asks.form("node_config", fields)
        child = asks.owner(f"<configure node='{{node}}'>{form}</configure>")
        return await self._say(BOSS, "set", child)

    async def _state(self) -> str:
        """Return what an owner sees of the node: items, settings, who is what."""
        seen = ["items", "configure-get", "affiliations-get"]
        answers = [await self._say(BOSS, "get", ASKS[it].child) for it in seen]
        return "\n".join("".join(it.itertext()) + str(_attributes(it)) for it in answers)

    async def _done(self, who: str, child: str, jid: str = "") -> None:
        answer = await self._say(who, "set", child, jid)
        assert said(answer) == "result", f"{self._case}: {child}: {said(answer)}"

    async def _say(self, who: str, kind: str, child: str, jid: str = "") -> _Element:
        window = asks.WINDOW if self._case.kind == "queue" else ""
        filled = child.format(node=self._node, jid=jid or self._principal, window=window)
        return await self._wire.ask(who, kind, filled)

    async def clear(self) -> None:
        """Delete the node, if it is still there."""
        await self._say(BOSS, "set", ASKS["delete"].child)


def _attributes(answer: _Element) -> list[str]:
    return sorted(str(dict(it.attrib)) for it in answer.iterdescendants())
