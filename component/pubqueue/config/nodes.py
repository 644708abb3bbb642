"""The nodes of the configuration file: created or changed to match it; differences that remain are logged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from pubqueue.config.settings import ConfigError
from pubqueue.engine.listings import AffiliationsOf, Nodes
from pubqueue.faces.xmpp.parse.iq import jid_of
from pubqueue.faces.xmpp.settings import field_name, sentence, wanted
from pubqueue.model.after import node_after
from pubqueue.model.changes import ConfigureNode, CreateNode
from pubqueue.model.decision import Refused
from pubqueue.model.entities import Affiliation, Jid, Millis, NodeName
from pubqueue.model.replies import Declared
from pubqueue.rules.access import Other, Others
from pubqueue.rules.declare import Declare, declare
from pubqueue.rules.nodes import NodeFacts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pubqueue.config.settings import NodeSettings
    from pubqueue.engine.broker import Broker
    from pubqueue.engine.ports import Store, Transaction
    from pubqueue.model.decision import Decision, Reply
    from pubqueue.model.entities import Node, Principal
    from pubqueue.model.replies import Difference

log = structlog.get_logger(__name__)

ALL: Final = 1 << 30


def read(node: NodeSettings, by: Principal) -> Declare:
    """Return the request for a node of the file.

    Raises:
        ConfigError: a name in it is not a JID.

    """
    words = {"x-queueing#enabled": node.queueing} | node.options
    return Declare(
        by=by,
        node=NodeName(node.name),
        settings=wanted({var: [_form_value(value)] for var, value in words.items()}),
        owners=_jids(node, node.owners),
        publishers=_jids(node, node.publishers),
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
    """Create missing nodes, change the others to match their declarations, and log the differences.

    Raises:
        ConfigError: a declaration is invalid. The nodes before it have been changed.

    """
    for node in nodes:
        declared = _accepted(node.name, await broker.handle(read(node, by)))
        for level, event, words in _log_lines(declared):
            getattr(log, level)(event, node=node.name, **words)
    for name, place in missing_dead_letter_nodes(await store.read(_all_nodes)):
        log.warning("node.dead_letter_node_missing", node=name, dead_letter_node=place)


def _accepted(name: str, reply: Reply) -> Declared:
    if isinstance(reply, Declared):
        return reply
    assert isinstance(reply, Refused)
    raise ConfigError(
        f"node {name!r}: {sentence(reply) or reply.refusal.name.lower()}", key="node", value=name
    )


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


def missing_dead_letter_nodes(nodes: Iterable[Node]) -> list[tuple[str, str]]:
    """Return each node whose dead-letter node does not exist, with that name: its dead items stay where they are."""
    places = {node.name: node.config.dead_letter_node for node in nodes}
    return [(name, place) for name, place in places.items() if place and place not in places]


def _all_nodes(tx: Transaction) -> list[Node]:
    return list(tx.page(Nodes(), None, ALL))


class Comparison:
    """What `serve` would change in the declared nodes, found without changing them."""

    def __init__(self, declared: Iterable[NodeSettings], by: Principal) -> None:
        self._declared = {node.name: read(node, by) for node in declared}

    def lines(self, tx: Transaction) -> tuple[int, list[str]]:
        """Return how many nodes are stored, and a line for each difference.

        Raises:
            ConfigError: a declaration is invalid.

        """
        stored = {node.name: node for node in _all_nodes(tx)}
        many = len(stored)
        places = {name: node.config.dead_letter_node for name, node in stored.items()}
        lines: list[str] = []
        for name, request in self._declared.items():
            facts = _facts(tx, request, stored)
            decision = declare(request, facts)
            lines += _lines(_accepted(name, decision.reply))
            _note(stored, decision)
            place = request.settings.values.get("dead_letter_node", places.get(request.node, ""))
            places[request.node] = str(place or "")
        lines += [
            f"node {name!r}: its dead-letter node {place!r} does not exist; dead items stay where they are"
            for name, place in places.items()
            if place and place not in places
        ]
        return many, lines


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
