"""What may be seen of nodes, and what an account has at the service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from pubqueue.model import replies, several_subscriptions
from pubqueue.model.decision import Decision, Read, Refusal, refuse
from pubqueue.model.entities import Affiliation, Jid, Node, NodeName, Principal
from pubqueue.rules import access
from pubqueue.rules.access import Action
from pubqueue.rules.nodes import NodeFacts, managed

if TYPE_CHECKING:
    from pubqueue.model.entities import Subscription


# What may be seen of nodes: the nodes of the service, one of them, and the ids of its items.


class Describe(Read, frozen=True, gc=False):
    """Request a node: its settings if `manage`, otherwise its public metadata; `known` refuses accounts that may not know of it."""

    node: NodeName
    manage: bool
    known: bool = False


class Types(Struct, frozen=True, gc=False):
    """Types of payloads: only nodes of these are `included`, or all but those that are `excluded`."""

    included: tuple[str, ...] | None = None
    excluded: tuple[str, ...] = ()


class ListNodes(Read, frozen=True, gc=False):
    """Request the nodes of the service (XEP-0060 5.2), of all types or of some.

    With a `prefix` only nodes of all types whose names are longer and begin with it; they are not counted.
    """

    page: replies.Page | None = None
    types: Types | None = None
    prefix: str = ""


class ListItems(Read, frozen=True, gc=False):
    """Request the ids of a node's items (XEP-0060 5.5)."""

    node: NodeName
    page: replies.Page | None = None


class NodeListFacts(Struct, frozen=True, gc=False):
    """Nodes by name, each with the principal's affiliation."""

    nodes: tuple[tuple[Node, Affiliation], ...]
    part: replies.Part = replies.WHOLE


def describe(request: Describe, facts: NodeFacts) -> Decision:
    """Decide whether the principal may see the node; its settings are for owners only."""
    owners = tuple(jid for jid, is_a in facts.affiliations if is_a is Affiliation.OWNER)
    if request.manage:
        node = managed(request.by, facts)
        return node if isinstance(node, Decision) else Decision(replies.Described(node, owners))
    if facts.node is None:
        return refuse(Refusal.NODE_NOT_FOUND)
    barred = access.unknown(request.by, facts.node, facts.affiliation) if request.known else None
    if barred is not None:
        return refuse(barred)
    standing = access.standing_of(request.by, facts.affiliation)
    depth = facts.node.items if access.may(standing, Action.OBSERVE, facts.node) else None
    writes = {Affiliation.PUBLISHER, Affiliation.PUBLISH_ONLY}
    publishers = tuple(jid for jid, is_a in facts.affiliations if is_a in writes)
    seen = sees(request.by, facts.node, facts.affiliation)
    may = [
        access.may(standing, action, facts.node, subscribed=True)
        for action in (Action.PUBLISH, Action.SUBSCRIBE)
    ]
    return Decision(replies.Described(facts.node, owners, publishers if seen else (), depth, *may))


def list_nodes(request: ListNodes, facts: NodeListFacts) -> Decision:
    """List the nodes that the principal may see (XEP-0060 5.2)."""
    seen = tuple(
        (node.name, node.config.title)
        for node, affiliation in facts.nodes
        if sees(request.by, node, affiliation)
    )
    return Decision(replies.Listed(seen, None, facts.part))


def sees(by: Principal, node: Node, affiliation: Affiliation) -> bool:
    """Return whether the principal may know that the node exists."""
    if access.is_hidden(by, node.name):
        return False
    return access.barred(access.standing_of(by, affiliation), node) is None


def list_items(request: ListItems, facts: NodeFacts) -> Decision:
    """List the items of a node; those of a queue to its owners only (XEP-0254 row 14)."""
    node = facts.node
    if node is None:
        return refuse(Refusal.NODE_NOT_FOUND)
    affiliation = access.standing_of(request.by, facts.affiliation)
    if (closed := access.barred(affiliation, node)) is not None:
        return refuse(closed)
    if facts.after_missing:
        return refuse(Refusal.ITEM_NOT_FOUND)
    sees = sees_items(request.by, node, facts.affiliation, subscribed=facts.subscribed)
    shown = facts.items if sees else ()
    return Decision(replies.Listed(tuple((item, "") for item in shown), node.name, facts.part))


def sees_items(
    by: Principal, node: Node, affiliation: Affiliation, *, subscribed: bool = False
) -> bool:
    """Return whether the principal may see the ids of the items."""
    standing = access.standing_of(by, affiliation)
    if node.config.queueing and standing is not Affiliation.OWNER:
        return False
    return access.may(standing, Action.RETRIEVE, node, subscribed=subscribed)


# What an account has at the service: its affiliations and its subscriptions (XEP-0060 5.6, 5.7).


class ListMyAffiliations(Read, frozen=True, gc=False):
    """Request the affiliations of the principal's account with every node, or with one."""

    node: NodeName | None = None
    page: replies.Page | None = None


class ListMySubscriptions(Read, frozen=True, gc=False):
    """Request the subscriptions of every JID of the principal's account, to every node or to one."""

    node: NodeName | None = None
    page: replies.Page | None = None


class AffiliationFacts(Struct, frozen=True, gc=False):
    """The account's affiliations with the requested nodes, by name; only nodes that exist."""

    entries: tuple[tuple[NodeName, Affiliation], ...]
    part: replies.Part = replies.WHOLE


class SubscriptionFacts(Struct, frozen=True, gc=False):
    """Whether the requested node exists, and the account's subscriptions, by node."""

    found: bool
    entries: tuple[Subscription, ...]
    part: replies.Part = replies.WHOLE
    after_missing: bool = False


def list_my_affiliations(request: ListMyAffiliations, facts: AffiliationFacts) -> Decision:
    """Return the effective affiliations: an administrator of the service owns every node."""
    if request.node is not None and not facts.entries:
        return refuse(Refusal.NODE_NOT_FOUND)
    entries = ((node, access.standing_of(request.by, found)) for node, found in facts.entries)
    own = tuple(entry for entry in entries if entry[1] is not Affiliation.NONE)
    return Decision(replies.MyAffiliations(own, request.node, facts.part))


def list_my_subscriptions(request: ListMySubscriptions, facts: SubscriptionFacts) -> Decision:
    """Return all subscriptions of the account, whichever of its JIDs sent the request."""
    if not facts.found:
        return refuse(Refusal.NODE_NOT_FOUND)
    if facts.after_missing:
        return refuse(Refusal.ITEM_NOT_FOUND)
    return Decision(replies.MySubscriptions(facts.entries, request.node, facts.part))


def name_of(subscription: Subscription) -> str:
    """Return the name of a subscription on a page: it marks a place, even after the subscription has ended."""
    row = f"{len(subscription.node)} {subscription.node}{subscription.jid}"
    return several_subscriptions.name_of(subscription, row)


def named(name: str) -> tuple[NodeName, Jid] | None:
    """Return the node and the JID of such a name, None if it is invalid."""
    digits, _, rest = name.partition(" ")
    if not (digits.isascii() and digits.isdigit()) or not 0 < int(digits[:6]) < len(rest):
        return None
    length = int(digits[:6])
    if digits != f"{length}":
        return None
    return NodeName(rest[:length]), Jid(rest[length:])
