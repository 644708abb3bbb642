"""The nodes and schedules of the configuration file, as requests to the queue."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog

from pubqueue.engine import cron_times
from pubqueue.engine.damage import closed_if_damaged
from pubqueue.engine.listings import AffiliationsOf, Nodes, Total
from pubqueue.engine.ports import StoreError
from pubqueue.engine.rows import Needs
from pubqueue.faces.checks import ConfigError
from pubqueue.faces.xmpp.parse.iq import jid_of
from pubqueue.faces.xmpp.xml.fields import field_name, field_values, sentence, wanted
from pubqueue.faces.xmpp.xml.payload import UnfitPayloadError, from_json, from_xml
from pubqueue.model.after import node_after
from pubqueue.model.changes import ConfigureNode, CreateNode
from pubqueue.model.decision import Refusal, Refused
from pubqueue.model.entities import Affiliation, Jid, Millis, NodeName, seconds
from pubqueue.model.replies import Declared
from pubqueue.model.schedules import MAX_SCHEDULES, Definition, Missed, SchedulesDeclared, stamp
from pubqueue.rules.access import Other, Others
from pubqueue.rules.declare import Declare, declare
from pubqueue.rules.nodes import NodeFacts
from pubqueue.rules.schedules import DeclareSchedules, fault_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from pubqueue.config.settings import NodeSettings, ScheduleSettings
    from pubqueue.engine.broker import Broker
    from pubqueue.engine.ports import Store, Transaction
    from pubqueue.model.decision import Decision, Reply
    from pubqueue.model.entities import Node, Principal
    from pubqueue.model.replies import Difference


# The nodes of the configuration file: created or changed to match it; differences that remain are logged.
#
# A start and a reload read the nodes that the file names, and those that these name, however many others there are. Only
# `pubqueue check` looks at all nodes, in pages.

log = structlog.get_logger(__name__)

ALL: Final = 1 << 30
PAGE: Final = 500
"""Nodes that `check` reads at a time."""


def read_node(node: NodeSettings, by: Principal) -> Declare:
    """Return the request for a node of the file.

    Raises:
        ConfigError: a name in it is not a JID.

    """
    words = {"x-queueing#enabled": node.queueing} | node.options
    return Declare(
        by=by,
        node=NodeName(node.name),
        settings=wanted(
            {var: field_values(var, _form_value(value)) for var, value in words.items()}
        ),
        owners=_jids(node, node.owners),
        publishers=_jids(node, node.publishers),
        publish_only=_jids(node, node.publish_only),
        members=_jids(node, node.members),
        outcasts=_jids(node, node.outcasts),
    )


def _jids(node: NodeSettings, names: Iterable[str]) -> tuple[Jid, ...]:
    found: list[Jid] = []
    for name in names:
        jid = jid_of(name)
        if jid is None:
            raise ConfigError(f"node {node.name!r}: {name!r} is not a JID", key="node", value=name)
        found.append(jid)
    return tuple(found)


def _form_value(value: str | float | bool) -> str:  # noqa: FBT001  # what TOML may hold
    return ("1" if value else "0") if isinstance(value, bool) else str(value)


async def bring_nodes(
    broker: Broker, store: Store, nodes: Iterable[NodeSettings], by: Principal
) -> None:
    """Create missing nodes, change the others to match their declarations, and log the differences, and which of them have no dead-letter node.

    Raises:
        ConfigError: a declaration is invalid. The nodes before it have been changed.
        StoreError: the store failed, with the same effect.

    """
    names: list[NodeName] = []
    for node in nodes:
        declared = _accepted(node.name, await broker.handle(read_node(node, by)))
        for level, event, words in _log_lines(declared):
            getattr(log, level)(event, node=node.name, **words)
        names.append(NodeName(node.name))
    for name, place in (
        await store.read(partial(_missing_dead_letter_nodes, names)) if names else ()
    ):
        log.warning("node.dead_letter_node_missing", node=name, dead_letter_node=place)


def _accepted(name: str, reply: Reply) -> Declared:
    if isinstance(reply, Declared):
        return reply
    raise _refused(f"node {name!r}", reply, key="node", value=name)


FAILURES: Final = frozenset({Refusal.STORE_FAILED, Refusal.INTERNAL_FAULT})
"""Refusals for which the file is no reason: they may pass, as the loss of a batch does (decision 150)."""


def _refused(
    what: str, reply: Reply, *, key: str, value: object = None
) -> ConfigError | StoreError:
    """Return the error of a request that was refused: the file is wrong, or the request has failed, which the log explains."""
    assert isinstance(reply, Refused)
    if reply.refusal in FAILURES:
        return StoreError(f"{what}: it could not be stored")
    why = sentence(reply) or reply.refusal.name.lower()
    return ConfigError(f"{what}: {why}", key=key, value=value)


def _log_lines(declared: Declared) -> Iterator[tuple[str, str, dict[str, str | int]]]:
    """Yield level, event and keys of each log line about a node."""
    if declared.made:
        yield "info", "node.made", {}
    for one in declared.changed:
        yield "info", "node.changed", _words(one)
    for one in declared.kept:
        yield "warning", "node.differs", _words(one) | {"why": one.reason}
    if unnamed := declared.unnamed:
        yield "info", "node.others", {"accounts": len(unnamed), "first": unnamed[0]}


def _words(one: Difference) -> dict[str, str | int]:
    return {"what": field_name(one.name), "stored": one.stored, "declared": one.declared}


def _named(tx: Transaction, names: Iterable[NodeName]) -> dict[NodeName, Node]:
    """Return those of these nodes that exist."""
    asked = set(names)
    found = tx.load(Needs(nodes=asked)).nodes if asked else ()
    return {node.name: closed_if_damaged(node) for node in found}


def _missing_dead_letter_nodes(
    names: Iterable[NodeName], tx: Transaction
) -> list[tuple[NodeName, NodeName]]:
    """Return each of these nodes whose dead-letter node does not exist, with that name: its dead items stay where they are."""
    stored = _named(tx, names)
    places = [(one, stored[one].config.dead_letter_node) for one in names if one in stored]
    there = _named(tx, (NodeName(place) for _, place in places if place))
    return [(name, NodeName(place)) for name, place in places if place and place not in there]


class Comparison:
    """What `serve` would change in the declared nodes, found without changing them."""

    def __init__(self, declared: Iterable[NodeSettings], by: Principal) -> None:
        self._declared = {node.name: read_node(node, by) for node in declared}

    def of_declared(self, tx: Transaction) -> list[str]:
        """Return a line for each difference.

        Raises:
            ConfigError: a declaration is invalid.

        """
        return self._compare(tx)[0]

    def lines(self, tx: Transaction) -> tuple[int, list[str]]:
        """Return how many nodes are stored, a line for each difference, and one for each node without its dead-letter node.

        Raises:
            ConfigError: a declaration is invalid.

        """
        lines, places = self._compare(tx)
        for name, place in self._places(tx, places):
            if place and place not in self._declared and not _named(tx, [NodeName(place)]):
                lines.append(
                    f"node {name!r}: its dead-letter node {place!r} does not exist; dead items stay where they are"
                )
        return sum(tx.page(Total(Nodes()))), lines

    def _compare(self, tx: Transaction) -> tuple[list[str], dict[NodeName, str]]:
        """Return a line for each difference, and the dead-letter nodes that the declared nodes will have."""
        declared = self._declared.values()
        stored = _named(tx, (one.node for one in declared))
        sources = [str(one.settings.values.get("source", "")) for one in declared]
        sources += [node.config.source for node in stored.values()]
        stored |= _named(tx, (NodeName(one) for one in sources if one and one not in stored))
        places: dict[NodeName, str] = {}
        lines: list[str] = []
        for request in declared:
            name = request.node
            before = stored[name].config.dead_letter_node if name in stored else ""
            decision = declare(request, _facts(tx, request, stored))
            lines += _lines(_accepted(name, decision.reply))
            _note(stored, decision)
            places[name] = str(request.settings.values.get("dead_letter_node", before) or "")
        return lines, places

    def _places(
        self, tx: Transaction, declared: Mapping[NodeName, str]
    ) -> Iterator[tuple[NodeName, str]]:
        """Yield every node with the name of its dead-letter node, first those that exist."""
        after: str | None = None
        left = dict(declared)
        while nodes := tx.page(Nodes(), after, PAGE):
            after = nodes[-1].name
            for node in map(closed_if_damaged, nodes):
                yield node.name, left.pop(node.name, node.config.dead_letter_node)
        yield from left.items()


def _note(nodes: dict[NodeName, Node], decision: Decision) -> None:
    """Note what a declaration makes of the nodes: one further down the file may name them."""
    for change in decision.changes:
        if isinstance(change, CreateNode | ConfigureNode):
            name = change.node.name if isinstance(change, CreateNode) else change.node
            after = node_after(change, nodes.get(name))
            assert after is not None
            nodes[name] = after


def _facts(tx: Transaction, request: Declare, nodes: Mapping[NodeName, Node]) -> NodeFacts:
    node = nodes.get(request.node)
    people = () if node is None else tx.page(AffiliationsOf(request.node), None, ALL)
    before = "" if node is None else node.config.source
    named = (NodeName(str(request.settings.values.get("source", before))), NodeName(before))
    return NodeFacts(
        now=Millis(0),
        node=node,
        affiliation=Affiliation.NONE,
        affiliations=tuple((row.account, row.affiliation) for row in people),
        others=Others({name: Other(nodes[name]) for name in named if name in nodes}),
    )


def _lines(declared: Declared) -> Iterator[str]:
    name = declared.node
    if declared.made:
        yield f"node {name!r}: will be created"
    for one in declared.changed:
        words = _words(one)
        yield f"node {name!r}: {words['what']} is {one.stored or 'empty'}, will be {one.declared or 'empty'}"
    for one in declared.kept:
        stays = f"node {name!r}: {field_name(one.name)} stays {one.stored}"
        yield (
            f"{stays}, {one.declared} is declared: {one.reason}"
            if one.declared
            else f"{stays}: {one.reason}"
        )
    if declared.unnamed:
        yield f"node {name!r}: {len(declared.unnamed)} accounts that the file does not name keep their rights"


# The schedules of the configuration file: changed to match it, and shown by `pubqueue check`.

SHOWN: Final = 3
"""How many of a schedule's next times `check` prints."""


def read_schedule(one: ScheduleSettings) -> Definition:
    """Return the definition of a schedule of the file.

    Raises:
        ConfigError: it is invalid.

    """
    try:
        if one.payload is not None and one.json is None:
            payload, space = from_xml(one.payload)
        elif one.payload is None and one.json is not None:
            payload, space = from_json(one.json)
        else:
            raise _unfit(one, "set either payload or json, not both")
    except UnfitPayloadError as problem:
        raise _unfit(one, problem) from None
    definition = Definition(
        name=one.name,
        cron=" ".join(one.cron.split()),
        zone=one.zone,
        node=NodeName(one.node),
        payload=payload,
        type=space,
        priority=one.priority,
        ttl=None if one.ttl is None else seconds(one.ttl),
        headers=tuple(one.headers.items()),
        missed=Missed(one.missed),
        enabled=one.enabled,
        group=one.group,
    )
    if unfit := fault_of(definition) or cron_times.unfit(definition.cron, definition.zone):
        raise _unfit(one, unfit)
    return definition


def _unfit(one: ScheduleSettings, why: object) -> ConfigError:
    return ConfigError(f"schedule {one.name!r}: {why}", key="schedule", value=one.name)


def read_all(schedules: Iterable[ScheduleSettings]) -> tuple[Definition, ...]:
    """Return the definitions of all schedules of the file.

    Raises:
        ConfigError: one of them is invalid.

    """
    found = tuple(map(read_schedule, schedules))
    if len(found) > MAX_SCHEDULES:
        raise ConfigError(
            f"there are {len(found)} schedules; up to {MAX_SCHEDULES} are allowed",
            key="schedule",
            value=len(found),
        )
    return found


async def bring_schedules(
    broker: Broker, schedules: Iterable[ScheduleSettings], by: Principal
) -> None:
    """Create or change the file's schedules, end those that were removed from it, and log the changes.

    Raises:
        ConfigError: one of them is invalid, and nothing is changed.
        StoreError: the store failed, with the same effect.

    """
    definitions = read_all(schedules)
    following = await asyncio.to_thread(_following, definitions, broker.now())
    reply = await broker.handle(DeclareSchedules(by, definitions, following))
    if not isinstance(reply, SchedulesDeclared):
        raise _refused("schedules", reply, key="schedule")
    for event, names in (
        ("schedule.made", reply.made),
        ("schedule.changed", reply.changed),
        ("schedule.ended", reply.ended),
    ):
        for name in names:
            log.info(event, schedule=name)


def _following(definitions: Iterable[Definition], now: Millis) -> tuple[Millis | None, ...]:
    return tuple(cron_times.following(one.cron, one.zone, now) for one in definitions)


class Preview:
    """The output of `pubqueue check` about the schedules of the file. Raises ConfigError if one is invalid."""

    def __init__(
        self, schedules: Iterable[ScheduleSettings], declared: Collection[str], now: Millis
    ) -> None:
        self._definitions = read_all(schedules)
        self._declared = declared
        self._now = now

    def lines(self, tx: Transaction) -> list[str]:
        """Return a line for each schedule, and one more if its node is neither declared nor stored."""
        there = _named(tx, (one.node for one in self._definitions))
        return [line for one in self._definitions for line in self._about(one, there)]

    def _about(self, one: Definition, there: Collection[str]) -> Iterator[str]:
        times = cron_times.times(one.cron, one.zone, self._now, SHOWN)
        when = f"next {', '.join(map(stamp, times))}" if one.enabled else "not enabled"
        yield f"schedule {one.name!r}: {when}"
        if one.node not in there and one.node not in self._declared:
            yield f"schedule {one.name!r}: its node {one.node!r} does not exist; the schedule waits until it does"
