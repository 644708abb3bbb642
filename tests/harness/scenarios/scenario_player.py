"""Plays a scenario: a network acts for the cast, a real component answers.

Stanzas to one entity are awaited in order; between entities no order is promised, and none is required. A
stanza to a bare JID goes to the first of the cast with it. In addition to its steps, every scenario
proves: each iq is answered exactly once (RFC 6120 8.2.3), message ids are unique (XEP-0060 12.4), every
stanza is valid by the schemas, and at the end no entity has anything left to receive.

Time leaps, and only while all of them wait: the component's clock stands still while a stanza is sent, or is
on its way, and then leaps to the next moment at which the component has something to do. So no lock runs out because
a machine is slow, and effects of time come at their own moment when a step waits for them.
"""

from __future__ import annotations

import asyncio
import itertools
import re
from collections import deque
from contextlib import suppress
from copy import deepcopy
from datetime import UTC, datetime
from time import monotonic
from typing import TYPE_CHECKING, Final, Protocol

from harness.patience import TIMEOUT
from harness.scenarios.scenario import Nothing, Receive, Refused, Send, SessionStep, TakenIn, Upset
from harness.servers.stub_server import ACCEPT, on_a_stream, parse
from harness.stanzas.canonical import difference, lines, substitute
from lxml import etree

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from harness.batches.clock import Clock
    from harness.scenarios.network import Network
    from harness.scenarios.scenario import Error, Scenario, Step
    from harness.servers.stub_server import Stanza

CONDITION: Final = "{urn:ietf:params:xml:ns:xmpp-stanzas}"
PUBSUB_ERROR: Final = "{http://jabber.org/protocol/pubsub#errors}"
COMMAND_ERROR: Final = "{http://jabber.org/protocol/commands}"
OF_COMMANDS: Final = frozenset(
    (
        "bad-action",
        "bad-locale",
        "bad-payload",
        "bad-sessionid",
        "malformed-action",
        "session-expired",
    )
)
"""The explanation of an error of a command (XEP-0050 4.4); all others are of pubsub."""
EXTRAS: Final = {"urn:x-pubqueue:0", "urn:xmpp:hints", "urn:xmpp:delay"}
SILENCE: Final = 0.1
"""Seconds without a stanza until a round trip shows whether anything is on its way."""
DOWN: Final = 0.5
"""Seconds, by its clock, that a restart takes."""


class Component(Protocol):
    """Actions of a scenario on the component in addition to stanzas; its clock stands still."""

    clock: Clock

    async def start(self) -> None:
        """Start; return when the component reports that it is ready."""

    async def stop(self) -> None:
        """End it in order, all confirmed work kept."""

    async def kill(self) -> None:
        """End it with SIGKILL."""

    async def leap(self, within: float) -> None:
        """Let time leap, for this many seconds at most, until it sends something."""

    def running(self) -> AbstractAsyncContextManager[None]:
        """Let its timers run within the body, but not its clock."""


class ScenarioPlayer:
    """One scenario in play."""

    def __init__(
        self,
        scenario: Scenario,
        network: Network,
        component: Component,
        validate: Callable[[etree._Element], None],
    ) -> None:
        self._scenario = scenario
        self._network = network
        self._component = component
        self._validate = validate
        self._names = {"service": scenario.service}
        for name, jid in scenario.cast.items():
            self._names |= {name: jid, f"{name}.bare": jid.partition("/")[0]}
        self._roles: dict[str, str] = {}
        self._inboxes: dict[str, deque[Stanza]] = {name: deque() for name in scenario.cast}
        self._open: dict[tuple[str, str], etree._Element] = {}
        self._asked: dict[str, etree._Element] = {}
        self._message_ids: set[str] = set()
        self._numbers = itertools.count(1)
        self._record: deque[str] = deque(maxlen=12)
        self._since = component.clock.now()

    async def play(self) -> None:
        """Play every step; an AssertionError names the one that failed, with the last stanzas."""
        for step in [*self._scenario.steps, Nothing(0, "at the end nobody receives anything")]:
            try:
                await self._play(step)
            except (AssertionError, TimeoutError, etree.LxmlError, KeyError) as failure:
                reason = str(failure) or "nothing came"
                reported = "\n".join(self._record)
                message = f"line {step.line}: {step.text}\n{reason}\n\nlast said:\n{reported}"
                raise AssertionError(message) from failure
            self._since = self._component.clock.now()
        assert not self._open, f"never answered: {list(self._open)}"

    async def _play(self, step: Step) -> None:
        match step:
            case Send():
                await self._send(step)
            case Receive():
                await self._receive(step)
            case Refused():
                await self._refused(step)
            case Nothing():
                await self._nothing(step.who)
            case TakenIn():
                await self._round_trip()
            case SessionStep():
                change = self._network.log_out if step.ends else self._network.log_in
                await change(self._entity(step.who))
            case Upset():
                await self._upset(step.what)
            case _:
                message = f"no such step: {step}"
                raise TypeError(message)

    async def _send(self, step: Send) -> None:
        who = self._entity(step.who)
        stanza = parse(substitute(self._dated(step.xml), self._names))
        _default(stanza, "from", self._names[who])
        _default(stanza, "to", self._scenario.service)
        if stanza.tag == f"{{{ACCEPT}}}iq":
            _default(stanza, "id", f"{who}-{next(self._numbers)}")
            if stanza.get("type") in {"get", "set"}:
                self._open[who, stanza.get("id", "")] = stanza
                self._asked[who] = stanza
        self._record.append(f"{who} > {on_a_stream(stanza)}")
        await self._network.say(who, stanza)

    def _dated(self, text: str) -> str:
        """Write future moments, `{in 2 s}`, by the service's calendar (XEP-0082)."""

        def moment(found: re.Match[str]) -> str:
            there = self._component.clock.now() + float(found[1])
            return f"{datetime.fromtimestamp(there, UTC):%Y-%m-%dT%H:%M:%S.%fZ}"

        return re.sub(r"\{in (\d+(?:\.\d+)?) s\}", moment, text)

    async def _receive(self, step: Receive) -> None:
        whos = [self._entity(it) for it in step.who]
        while not (who := self._first_fit(step, whos)):
            await self._hear()
        early = self._since + step.after - self._component.clock.now()
        assert early <= 0, f"came {early:.3f} s too soon"
        if step.roles:
            others = [it for it in step.who if self._entity(it) != who]
            for role, name in zip(step.roles, [who, *others], strict=True):
                self._cast_as(role, self._entity(name))

    def _first_fit(self, step: Receive, whos: list[str]) -> str | None:
        """Return which of the receivers got the stanza of the step, taken from the inbox; None while it may still come.

        Of several, one may already have got the stanza of a later step: no order is promised between
        them.
        """
        diffs = []
        for who in whos:
            if self._inboxes[who]:
                diff = self._differs(step, who, self._inboxes[who][0])
                if not diff:
                    self._inboxes[who].popleft()
                    return who
                diffs.append(diff)
        assert len(diffs) < len(whos), "\n".join(diffs)
        return None

    def _differs(self, step: Receive, who: str, stanza: Stanza) -> str:
        expected = parse(step.xml)
        actual = deepcopy(stanza.tree)
        self._complete(expected, who)
        if not step.exactly:
            _leave_out_extras(expected, actual)
        self._network.forgive(expected, actual)
        return difference(expected, actual, self._names)

    async def _refused(self, step: Refused) -> None:
        who = self._entity(step.who)
        stanza = await self._next(who)
        diffs = []
        for error in step.errors:
            expected = etree.Element(f"{{{ACCEPT}}}iq", type="error")
            self._complete(expected, who)
            expected.extend(deepcopy(child) for child in self._asked[who])
            expected.append(_written(error))
            actual = deepcopy(stanza.tree)
            self._network.forgive(expected, actual)
            diffs.append(difference(expected, actual, self._names))
        assert not all(diffs), "\n".join(diffs)

    async def _nothing(self, who: str) -> None:
        await self._round_trip()
        for name in [self._entity(who)] if who else self._inboxes:
            inbox = self._inboxes[name]
            assert not inbox, f"{name} receives:\n" + "\n".join(lines(inbox[0].tree))

    async def _hear(self) -> None:
        """Take arriving stanzas; let time leap when none is on its way."""
        begun = monotonic()
        with suppress(TimeoutError):
            async with asyncio.timeout(SILENCE):
                self._take(*await self._network.hear())
                return
        if not await self._round_trip():
            assert self._component.clock.now() < self._since + TIMEOUT, "nothing came"
            await self._component.leap(
                TIMEOUT if self._network.is_in_order else monotonic() - begun
            )

    async def _round_trip(self) -> int:
        """Return how many stanzas were on their way."""
        count = 0
        async for who, stanza in self._network.round_trip():
            self._take(who, stanza)
            count += 1
        return count

    async def _upset(self, what: str) -> None:
        if what == "cut":
            async with self._component.running():
                await self._network.cut()
            return
        await (self._component.kill() if what == "kill" else self._component.stop())
        self._component.clock.advance(DOWN)
        await self._component.start()

    async def _next(self, who: str) -> Stanza:
        while not self._inboxes[who]:
            await self._hear()
        return self._inboxes[who].popleft()

    def _take(self, who: str, stanza: Stanza) -> None:
        tree = stanza.tree
        self._record.append(f"{who} < {stanza.raw}")
        self._validate(tree)
        if tree.tag == f"{{{ACCEPT}}}message":
            assert tree.get("id") not in self._message_ids, f"id used twice: {stanza.raw}"
            self._message_ids.add(tree.get("id", ""))
        if tree.tag == f"{{{ACCEPT}}}iq" and tree.get("type") in {"result", "error"}:
            asked = self._open.pop((who, tree.get("id", "")), None)
            assert asked is not None, f"nobody asked, or answered twice: {stanza.raw}"
        self._inboxes[who].append(stanza)

    def _complete(self, expected: etree._Element, who: str) -> None:
        """Fill in the implied parts: the addresses, the iq's id, some id of a message."""
        _default(expected, "to", self._names[who])
        if expected.tag == f"{{{ACCEPT}}}message":
            _default(expected, "id", "{any}")
        elif who in self._asked:
            _default(expected, "id", self._asked[who].get("id", ""))
            _default(expected, "from", self._asked[who].get("to", ""))
        _default(expected, "from", self._scenario.service)

    def _cast_as(self, role: str, who: str) -> None:
        self._roles[role] = who
        self._names |= {role: self._names[who], f"{role}.bare": self._names[f"{who}.bare"]}

    def _entity(self, name: str) -> str:
        return self._roles.get(name, name)


def _default(stanza: etree._Element, key: str, value: str) -> None:
    if key not in stanza.attrib:
        stanza.set(key, value)


def _written(error: Error) -> etree._Element:
    element = etree.Element(f"{{{ACCEPT}}}error", type=error.kind)
    etree.SubElement(element, CONDITION + error.condition)
    if error.child:
        namespace = COMMAND_ERROR if error.child in OF_COMMANDS else PUBSUB_ERROR
        child = etree.SubElement(element, namespace + error.child)
        if error.feature:
            child.set("feature", error.feature)
    return element


def _leave_out_extras(expected: etree._Element, actual: etree._Element) -> None:
    """Drop our additions next to the event, unless the expectation contains them."""
    spoken_of = {child.tag for child in expected}
    for child in list(actual):
        if etree.QName(child).namespace in EXTRAS and child.tag not in spoken_of:
            actual.remove(child)
