"""What may be seen of nodes: the nodes of the service, one of them, and the ids of its items."""

from __future__ import annotations

from msgspec import Struct

from pubqueue.core.decision import Decision, Refusal, refuse
from pubqueue.core.model import Affiliation, Node, NodeName, Principal
from pubqueue.core.nodes import access
from pubqueue.core.nodes.access import Action
from pubqueue.core.nodes.manage import NodeFacts, managed
from pubqueue.core.nodes.replies import Described, Listed
from pubqueue.core.reading.listing import WHOLE, Page, Part


class Describe(Struct, frozen=True, gc=False):
    """Request a node: its settings if `manage`, otherwise its public metadata; `known` refuses accounts that may not know of it."""

    by: Principal
    node: NodeName
    manage: bool
    known: bool = False


class Types(Struct, frozen=True, gc=False):
    """Types of payloads: only nodes of these are `included`, or all but those that are `excluded`."""

    included: tuple[str, ...] | None = None
    excluded: tuple[str, ...] = ()


class ListNodes(Struct, frozen=True, gc=False):
    """Request the nodes of the service (XEP-0060 5.2), of all types or of some.

    With a `prefix` only nodes of all types whose names are longer and begin with it; they are not counted.
    """

    by: Principal
    page: Page | None = None
    types: Types | None = None
    prefix: str = ""


class ListItems(Struct, frozen=True, gc=False):
    """Request the ids of a node's items (XEP-0060 5.5)."""

    by: Principal
    node: NodeName
    page: Page | None = None


class NodeListFacts(Struct, frozen=True, gc=False):
    """Nodes by name, each with the principal's affiliation."""

    nodes: tuple[tuple[Node, Affiliation], ...]
    part: Part = WHOLE


def describe(request: Describe, facts: NodeFacts) -> Decision:
    """Decide whether the principal may see the node; its settings are for owners only."""
    owners = tuple(jid for jid, is_a in facts.affiliations if is_a is Affiliation.OWNER)
    if request.manage:
        node = managed(request.by, facts)
        return node if isinstance(node, Decision) else Decision(Described(node, owners))
    if facts.node is None:
        return refuse(Refusal.NODE_NOT_FOUND)
    standing = access.standing(request.by, facts.affiliation)
    if request.known and (barred := access.barred(standing, facts.node)) is not None:
        return refuse(barred)
    depth = facts.node.items if access.may(standing, Action.OBSERVE, facts.node) else None
    writes = {Affiliation.PUBLISHER, Affiliation.PUBLISH_ONLY}
    publishers = tuple(jid for jid, is_a in facts.affiliations if is_a in writes)
    seen = sees(request.by, facts.node, facts.affiliation)
    may = [
        access.may(standing, action, facts.node, subscribed=True)
        for action in (Action.PUBLISH, Action.SUBSCRIBE)
    ]
    return Decision(Described(facts.node, owners, publishers if seen else (), depth, *may))


def list_nodes(request: ListNodes, facts: NodeListFacts) -> Decision:
    """List the nodes that the principal may see (XEP-0060 5.2)."""
    seen = tuple(
        (node.name, node.config.title)
        for node, affiliation in facts.nodes
        if sees(request.by, node, affiliation)
    )
    return Decision(Listed(seen, None, facts.part))


def sees(by: Principal, node: Node, affiliation: Affiliation) -> bool:
    """Return whether the principal may know that the node exists."""
    return access.barred(access.standing(by, affiliation), node) is None


def list_items(request: ListItems, facts: NodeFacts) -> Decision:
    """List the items of a node; those of a queue to its owners only (XEP-0254 row 14)."""
    node = facts.node
    if node is None:
        return refuse(Refusal.NODE_NOT_FOUND)
    affiliation = access.standing(request.by, facts.affiliation)
    if (closed := access.barred(affiliation, node)) is not None:
        return refuse(closed)
    if facts.after_missing:
        return refuse(Refusal.ITEM_NOT_FOUND)
    sees = sees_items(request.by, node, facts.affiliation, subscribed=facts.subscribed)
    shown = facts.items if sees else ()
    return Decision(Listed(tuple((item, "") for item in shown), node.name, facts.part))


def sees_items(
    by: Principal, node: Node, affiliation: Affiliation, *, subscribed: bool = False
) -> bool:
    """Return whether the principal may see the ids of the items."""
    standing = access.standing(by, affiliation)
    if node.config.queueing and standing is not Affiliation.OWNER:
        return False
    return access.may(standing, Action.RETRIEVE, node, subscribed=subscribed)
