"""Subscriptions that wait for an owner's approval (XEP-0060 8.6, 8.7), and the owners' answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.core.addresses import account_of
from pubqueue.core.decision import Decision, Done, Refusal, refuse
from pubqueue.core.model import Affiliation, Item, Jid, Node, NodeName, Principal, SubscriptionState
from pubqueue.core.multi_subscription import apart
from pubqueue.core.nodes import access
from pubqueue.core.nodes.access import Action
from pubqueue.core.nodes.replies import Listed, NodeSubscriptions
from pubqueue.core.nodes.subscriptions.changes import Approve, EndSubscription
from pubqueue.core.nodes.subscriptions.subscribe import last_item, notify_owners
from pubqueue.core.notices import ApprovalWanted, SubscriptionChanged
from pubqueue.core.reading.listing import WHOLE, Page, Part

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pubqueue.core.changes import Change
    from pubqueue.core.model import Subscription

AT_ONCE: Final = 100
"""Up to how many requests for approval an owner is sent at once; the others follow as these are answered and more are requested."""


class Answer(Struct, frozen=True, gc=False):
    """An owner's answer to a waiting subscription: to `allow` or to deny it (XEP-0060 8.6)."""

    by: Principal
    node: NodeName
    jid: Jid
    allow: bool
    subid: str | None = None


class AnswerFacts(Struct, frozen=True, gc=False):
    """The node, the principal's affiliation, and the subscription; `owners` are notified of new subscribers.

    `last` is the newest item of a node that sends it to new subscribers.
    """

    node: Node | None
    affiliation: Affiliation
    subscription: Subscription | None
    owners: tuple[Jid, ...] = ()
    last: tuple[Item, bytes] | None = None


class ReadPending(Struct, frozen=True, gc=False):
    """Request the nodes whose subscriptions the principal approves, or the waiting subscriptions of one node."""

    by: Principal
    node: NodeName | None = None
    page: Page | None = None


class SendPending(Struct, frozen=True, gc=False):
    """Send the principal a request for each subscription that waits at the node (XEP-0060 8.7.4)."""

    by: Principal
    node: NodeName


class PendingFacts(Struct, frozen=True, gc=False):
    """A node with its waiting subscriptions, by JID; or, if no node was named, names of nodes."""

    node: Node | None
    affiliation: Affiliation
    waiting: tuple[Subscription, ...] = ()
    names: tuple[tuple[NodeName, str], ...] = ()
    part: Part = WHOLE


def answer(request: Answer, facts: AnswerFacts) -> Decision:
    """Decide on an owner's answer; without an owner's rights or a waiting subscription it changes nothing."""
    node, waiting = facts.node, facts.subscription
    if node is None or waiting is None or waiting.state is not SubscriptionState.PENDING:
        return Decision(Done())
    if not access.may(access.standing(request.by, facts.affiliation), Action.MANAGE, node):
        return Decision(Done())
    if request.subid not in {None, waiting.subid}:
        return Decision(Done())
    if not request.allow:
        return Decision(Done(), *settled(node, [], [waiting]))
    changes, announced = settled(node, [waiting], [])
    stands = replace(waiting, state=SubscriptionState.SUBSCRIBED)
    others = notify_owners(node, waiting, facts.owners)
    return Decision(Done(), changes, (*announced, *others, *last_item(node, stands, facts.last)))


def settled(
    node: Node, approved: Iterable[Subscription], ended: Iterable[Subscription]
) -> tuple[tuple[Change, ...], tuple[SubscriptionChanged, ...]]:
    """Approve subscriptions, or end them, and notify their JIDs (XEP-0060 12.14)."""
    stand, end = tuple(approved), tuple(ended)
    changes: tuple[Change, ...] = tuple(Approve(node.name, one.jid) for one in stand)
    changes += tuple(EndSubscription(node.name, one.jid) for one in end)
    announced = [changed(one, SubscriptionState.SUBSCRIBED) for row in stand for one in apart(row)]
    announced += [changed(one, SubscriptionState.NONE) for row in end for one in apart(row)]
    return changes, tuple(announced)


def changed(one: Subscription, state: SubscriptionState) -> SubscriptionChanged:
    """Notify a subscriber of the new state of its subscription."""
    return SubscriptionChanged(one.jid, one.node, state, one.subid)


def reconsidered(
    node: Node, subscriptions: Iterable[Subscription], affiliations: Mapping[Jid, Affiliation]
) -> tuple[tuple[Change, ...], tuple[SubscriptionChanged, ...]]:
    """End the subscriptions that would be refused now (XEP-0060 4.1, 14.3), and approve those that no longer need approval.

    Items that they hold stay locked until settled or timed out, as after an unsubscription.
    """
    ended: list[Subscription] = []
    approved: list[Subscription] = []
    for one in subscriptions:
        is_a = affiliations.get(account_of(one.jid), Affiliation.NONE)
        if not access.may(is_a, Action.SUBSCRIBE, node):
            ended.append(one)
        elif stands_now(one.state, is_a, node):
            approved.append(one)
    return settled(node, approved, ended)


def stands_now(state: SubscriptionState, affiliation: Affiliation, node: Node) -> bool:
    """Return whether a subscription was pending and no longer needs to be (XEP-0060 8.7.4)."""
    return state is SubscriptionState.PENDING and not access.needs_approval(affiliation, node)


def read_pending(request: ReadPending, facts: PendingFacts) -> Decision:
    """Return the subscriptions that wait for an owner."""
    if request.node is None:
        return Decision(Listed(facts.names, None, facts.part))
    node = _approved_by(request, facts)
    if isinstance(node, Decision):
        return node
    return Decision(NodeSubscriptions(node.name, facts.waiting, facts.part))


def send_pending(request: SendPending, facts: PendingFacts) -> Decision:
    """Send an owner the waiting subscriptions, as many as are sent at once."""
    node = _approved_by(request, facts)
    if isinstance(node, Decision):
        return node
    by = request.by.jid
    notices = tuple(ApprovalWanted(by, node.name, one.jid, one.subid) for one in facts.waiting)
    return Decision(Done(), (), notices)


def _approved_by(request: ReadPending | SendPending, facts: PendingFacts) -> Node | Decision:
    """Return the node if the principal approves its subscriptions (XEP-0060 8.7.3)."""
    if facts.node is None:
        return refuse(Refusal.NODE_NOT_FOUND)
    if not access.may(access.standing(request.by, facts.affiliation), Action.MANAGE, facts.node):
        return refuse(Refusal.FORBIDDEN)
    return facts.node
