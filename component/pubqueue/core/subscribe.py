"""Subscribe and unsubscribe (XEP-0060 6.1, 6.2), with the window of XEP-0254 2.1."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pubqueue.core import access
from pubqueue.core.access import Action
from pubqueue.core.decision import (
    AddSubscription,
    Decision,
    Done,
    EndSubscription,
    Refusal,
    SetWindow,
    Subscribed,
    refuse,
)
from pubqueue.core.model import Affiliation, Subscription, bare

if TYPE_CHECKING:
    from pubqueue.core.model import Asker, Jid, Millis, Node, NodeName


@dataclass(frozen=True, slots=True)
class Subscribe:
    """Subscribe `jid`. `queue_requests` is the window asked for, None where no form came along.

    `subid` is the id for the subscription, should it be a new one.
    """

    by: Asker
    node: NodeName
    jid: Jid
    subid: str
    queue_requests: int | None = None


@dataclass(frozen=True, slots=True)
class SetOptions:
    """Change the window of a subscription (XEP-0060 6.3.5), or only ask for it: None."""

    by: Asker
    node: NodeName
    jid: Jid
    subid: str | None
    queue_requests: int | None = None


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """End the subscription of `jid`."""

    by: Asker
    node: NodeName
    jid: Jid
    subid: str | None = None


@dataclass(frozen=True, slots=True)
class SubscribeFacts:
    """The node, the asker's affiliation, `jid`'s subscription, and what `jid` still holds."""

    now: Millis
    node: Node | None
    affiliation: Affiliation
    subscription: Subscription | None
    held: int = 0


def subscribe(request: Subscribe, facts: SubscribeFacts) -> Decision:
    """Decide a subscription; on a queue it needs a window, asked for last (XEP-0254 row 33)."""
    node = facts.node
    if bare(request.jid) != request.by.bare:
        return refuse(Refusal.FOREIGN_JID)
    if node is None:
        return refuse(Refusal.NODE_NOT_FOUND)
    affiliation = access.standing(request.by, facts.affiliation)
    if (closed := access.barred(affiliation, node)) is not None:
        return refuse(closed)
    if not access.may(affiliation, Action.SUBSCRIBE, node):
        return refuse(Refusal.FORBIDDEN)
    if facts.subscription is not None:
        return _again(request, node, facts.subscription)
    if node.config.queueing and request.queue_requests is None:
        return refuse(Refusal.CONFIGURATION_REQUIRED, limit=node.config.max_queue_requests)
    new = Subscription(
        node=node.name,
        jid=request.jid,
        subid=request.subid,
        queue_requests=_window(node, request.queue_requests),
        in_flight=facts.held,
    )
    return Decision(Subscribed(new, node.config.queueing), (AddSubscription(new),))


def _again(request: Subscribe, node: Node, now_held: Subscription) -> Decision:
    """Answer one who subscribes already: the state as it is, with a new window if one is asked."""
    if not node.config.queueing:
        return Decision(Subscribed(now_held, queueing=False))
    wanted = now_held.queue_requests
    if request.queue_requests is not None:
        wanted = _window(node, request.queue_requests)
    after = replace(now_held, queue_requests=wanted, available=True)
    change = SetWindow(node.name, now_held.jid, wanted)
    return Decision(Subscribed(after, queueing=True), () if after == now_held else (change,))


def _window(node: Node, wanted: int | None) -> int:
    """Return the window granted: more than the node's bound is clamped (XEP-0254 row 7)."""
    return min(wanted or 1, node.config.max_queue_requests)


def set_options(request: SetOptions, facts: SubscribeFacts) -> Decision:
    """Decide about the options of a subscription. Lowering the window recalls nothing (row 23)."""
    found = _own(request, facts)
    if isinstance(found, Decision):
        return found
    node, subscription = found
    if request.queue_requests is None or not node.config.queueing:
        return Decision(Subscribed(subscription, node.config.queueing))
    wanted = _window(node, request.queue_requests)
    after = replace(subscription, queue_requests=wanted)
    return Decision(
        Subscribed(after, queueing=True), (SetWindow(node.name, subscription.jid, wanted),)
    )


def unsubscribe(request: Unsubscribe, facts: SubscribeFacts) -> Decision:
    """Decide an unsubscription. Locks stay with the JID until settled or timed out (row 19)."""
    found = _own(request, facts)
    if isinstance(found, Decision):
        return found
    _, subscription = found
    return Decision(Done(), (EndSubscription(subscription.node, subscription.jid),))


def _own(
    request: SetOptions | Unsubscribe, facts: SubscribeFacts
) -> tuple[Node, Subscription] | Decision:
    """Find the subscription that the request is about, or say why not (XEP-0060 6.2.3, 6.3.4)."""
    if facts.node is None:
        return refuse(Refusal.NODE_NOT_FOUND)
    if bare(request.jid) != request.by.bare:
        return refuse(Refusal.FORBIDDEN)
    if facts.subscription is None:
        return refuse(Refusal.NOT_SUBSCRIBED)
    if request.subid is not None and request.subid != facts.subscription.subid:
        return refuse(Refusal.INVALID_SUBID)
    return facts.node, facts.subscription
