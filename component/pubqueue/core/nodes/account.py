"""What an account has at the service: its affiliations and its subscriptions (XEP-0060 5.6, 5.7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from pubqueue.core import multi_subscription
from pubqueue.core.decision import Decision, Refusal, refuse
from pubqueue.core.model import Affiliation, Jid, NodeName
from pubqueue.core.nodes import access
from pubqueue.core.nodes.replies import MyAffiliations, MySubscriptions
from pubqueue.core.reading.listing import WHOLE, Page, Part

if TYPE_CHECKING:
    from pubqueue.core.model import Principal, Subscription


class ListMyAffiliations(Struct, frozen=True, gc=False):
    """Request the affiliations of the principal's account with every node, or with one."""

    by: Principal
    node: NodeName | None = None
    page: Page | None = None


class ListMySubscriptions(Struct, frozen=True, gc=False):
    """Request the subscriptions of every JID of the principal's account, to every node or to one."""

    by: Principal
    node: NodeName | None = None
    page: Page | None = None


class AffiliationFacts(Struct, frozen=True, gc=False):
    """The account's affiliations with the requested nodes, by name; only nodes that exist."""

    entries: tuple[tuple[NodeName, Affiliation], ...]
    part: Part = WHOLE


class SubscriptionFacts(Struct, frozen=True, gc=False):
    """Whether the requested node exists, and the account's subscriptions, by node."""

    found: bool
    entries: tuple[Subscription, ...]
    part: Part = WHOLE
    after_missing: bool = False


def list_my_affiliations(request: ListMyAffiliations, facts: AffiliationFacts) -> Decision:
    """Return the effective affiliations: an administrator of the service owns every node."""
    if request.node is not None and not facts.entries:
        return refuse(Refusal.NODE_NOT_FOUND)
    entries = ((node, access.standing(request.by, found)) for node, found in facts.entries)
    own = tuple(entry for entry in entries if entry[1] is not Affiliation.NONE)
    return Decision(MyAffiliations(own, request.node, facts.part))


def list_my_subscriptions(request: ListMySubscriptions, facts: SubscriptionFacts) -> Decision:
    """Return all subscriptions of the account, whichever of its JIDs sent the request."""
    if not facts.found:
        return refuse(Refusal.NODE_NOT_FOUND)
    if facts.after_missing:
        return refuse(Refusal.ITEM_NOT_FOUND)
    return Decision(MySubscriptions(facts.entries, request.node, facts.part))


def name_of(subscription: Subscription) -> str:
    """Return the name of a subscription on a page: it marks a place, even after the subscription has ended."""
    row = f"{len(subscription.node)} {subscription.node}{subscription.jid}"
    return multi_subscription.name_of(subscription, row)


def named(name: str) -> tuple[NodeName, Jid] | None:
    """Return the node and the JID of such a name, None if it is invalid."""
    digits, _, rest = name.partition(" ")
    if not (digits.isascii() and digits.isdigit()) or not 0 < int(digits[:6]) < len(rest):
        return None
    length = int(digits[:6])
    return NodeName(rest[:length]), Jid(rest[length:])
