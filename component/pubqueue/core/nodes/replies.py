"""Replies about nodes, their affiliations and their subscriptions."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003  # msgspec reads it
from typing import TYPE_CHECKING

from msgspec import Struct

from pubqueue.core.reading.listing import WHOLE, Part

if TYPE_CHECKING:
    from pubqueue.core.model import Affiliation, Jid, Node, NodeName, Subscription


class Emptied(Struct, frozen=True, gc=False):
    """The node has no items any more; this is how many it had."""

    node: NodeName
    items: int


class Subscribed(Struct, frozen=True, gc=False):
    """The subscription as it is now; on a queue node with its window (XEP-0254 example 3).

    `configured` means that options were requested: they are shown as granted.
    """

    subscription: Subscription
    queueing: bool
    configured: bool = False
    wants_features: bool = False
    """Whether the level of its deliveries depends on what its client can do."""


class Unsubscribed(Struct, frozen=True, gc=False):
    """The subscription as it was, which has ended (XEP-0060 6.2.2)."""

    subscription: Subscription


class RostersWanted(Struct, frozen=True, gc=False):
    """The principal's entry in the rosters of these owners has to be looked up; then the request is repeated."""

    owners: tuple[Jid, ...]


class DefaultOptions(Struct, frozen=True, gc=False):
    """The options of a subscription by default (XEP-0060 6.4), at the service or at `node`.

    `limit` is the largest window of a queue, if one has to be requested.
    """

    node: NodeName | None
    temporary: bool = False
    limit: int | None = None


class Created(Struct, frozen=True, gc=False):
    """The node exists, and the principal owns it."""

    node: NodeName


class Difference(Struct, frozen=True, gc=False):
    """A setting, or an account, that is stored differently from its declaration; and why it stays, if it does."""

    name: str
    stored: str
    declared: str
    reason: str = ""


class Declared(Struct, frozen=True, gc=False):
    """The declared node exists: `made`, or with these differences changed to the declaration, or `kept`.

    `unnamed` are accounts that have an affiliation with the node though nothing was declared about them.
    """

    node: NodeName
    made: bool
    changed: tuple[Difference, ...] = ()
    kept: tuple[Difference, ...] = ()
    unnamed: tuple[Jid, ...] = ()


class Described(Struct, frozen=True, gc=False):
    """A node, for an owner or for discovery, or with its items.

    `depth` is the number of its items, for a principal that may know it. `may_publish` and `may_subscribe` are about the
    principal, as if it were a subscriber where that matters.
    """

    node: Node
    owners: tuple[Jid, ...] = ()
    publishers: tuple[Jid, ...] = ()
    depth: int | None = None
    may_publish: bool = True
    may_subscribe: bool = True


class Listed(Struct, frozen=True, gc=False):
    """Names with titles: nodes of the service, or items of a node."""

    entries: tuple[tuple[str, str], ...]
    node: NodeName | None = None
    part: Part = WHOLE


class Affiliations(Struct, frozen=True, gc=False):
    """The affiliations of the node (XEP-0060 8.9.1)."""

    node: NodeName
    entries: tuple[tuple[Jid, Affiliation], ...]
    part: Part = WHOLE


class NodeSubscriptions(Struct, frozen=True, gc=False):
    """Subscriptions to the node, for its owners: those that are active (XEP-0060 8.8.1), or pending."""

    node: NodeName
    entries: tuple[Subscription, ...]
    part: Part = WHOLE


class MyAffiliations(Struct, frozen=True, gc=False):
    """The principal's affiliations (XEP-0060 5.7): with all nodes, or with `node`."""

    entries: tuple[tuple[NodeName, Affiliation], ...]
    node: NodeName | None = None
    part: Part = WHOLE


class MySubscriptions(Struct, frozen=True, gc=False):
    """The subscriptions of the principal's JIDs (XEP-0060 5.6): all of them, or those to `node`."""

    entries: tuple[Subscription, ...]
    node: NodeName | None = None
    part: Part = WHOLE


class SubscriberPage(Struct, frozen=True, gc=False):
    """Some of the subscribers of a node; there may be more after `after`, None at the end.

    `subids` are the ids of subscribers that subscribe several times.
    """

    jids: tuple[Jid, ...]
    after: Jid | None
    subids: Mapping[Jid, tuple[str, ...]] = {}


class Unnotified(Struct, frozen=True, gc=False):
    """Deleted nodes that still have subscribers to notify; there may be more after `after`, None at the end."""

    nodes: tuple[NodeName, ...]
    after: int | None


Reply = (
    Emptied
    | Subscribed
    | Unsubscribed
    | RostersWanted
    | DefaultOptions
    | Created
    | Difference
    | Declared
    | Described
    | Listed
    | Affiliations
    | NodeSubscriptions
    | MyAffiliations
    | MySubscriptions
    | SubscriberPage
    | Unnotified
)
