"""The subscribers of a node, for its owners to see and to change (XEP-0060 8.8)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from msgspec import Struct

from pubqueue.core.changes import Change
from pubqueue.core.decision import Decision, Done, Refusal, Refused, SubscriptionEntry, refuse
from pubqueue.core.model import Affiliation, Subscription, SubscriptionState
from pubqueue.core.multi_subscription import apart, find, named
from pubqueue.core.nodes import access
from pubqueue.core.nodes.access import Action
from pubqueue.core.nodes.replies import NodeSubscriptions
from pubqueue.core.nodes.subscriptions.changes import AddSubscription, Approve, EndSubscription
from pubqueue.core.nodes.subscriptions.pending import changed
from pubqueue.core.nodes.subscriptions.subscribe import MAX_SUBSCRIPTIONS, notify_owners
from pubqueue.core.reading.listing import WHOLE, Page, Part

if TYPE_CHECKING:
    from pubqueue.core.model import Jid, Node, NodeName, Principal
    from pubqueue.core.notices import SubscriptionChanged


class GetSubscriptions(Struct, frozen=True, gc=False):
    """Ask for the subscribers of the node (XEP-0060 8.8.1)."""

    by: Principal
    node: NodeName
    page: Page | None = None


class Wish(Struct, frozen=True, gc=False):
    """The requested state of a JID's subscription, in the words of XEP-0060 4.2; None: unchanged.

    `subid` is that of the subscription meant, `new_subid` the one that it has if it is new.
    """

    jid: Jid
    state: str | None
    subid: str | None
    new_subid: str


class SetSubscriptions(Struct, frozen=True, gc=False):
    """Change subscriptions to the node; those that are not named stay as they are (XEP-0060 8.8.2)."""

    by: Principal
    node: NodeName
    wishes: tuple[Wish, ...]


class Named(Struct, frozen=True, gc=False):
    """The facts about a named JID: its subscription, its account's affiliation, and the account's subscriptions there."""

    subscription: Subscription | None
    affiliation: Affiliation
    of_account: int = 0


class SubscribersFacts(Struct, frozen=True, gc=False):
    """The node, the principal's affiliation, and a page of its subscriptions or the facts for each wish."""

    node: Node | None
    affiliation: Affiliation
    page: tuple[Subscription, ...] = ()
    part: Part = WHOLE
    named: tuple[Named, ...] = ()
    owners: tuple[Jid, ...] = ()
    most: int = MAX_SUBSCRIPTIONS


def get_subscriptions(request: GetSubscriptions, facts: SubscribersFacts) -> Decision:
    """Return the subscribers to an owner, without those that wait for approval."""
    node = _managed(request, facts)
    if isinstance(node, Decision):
        return node
    return Decision(NodeSubscriptions(node.name, facts.page, facts.part))


def set_subscriptions(request: SetSubscriptions, facts: SubscribersFacts) -> Decision:
    """Make the possible changes, notify the subscribers, and name the failed entries (XEP-0060 8.8.2.4)."""
    node = _managed(request, facts)
    if isinstance(node, Decision):
        return node
    if (no := _named_twice(request.wishes)) is not None:
        return refuse(Refusal.BAD_REQUEST, no)
    changes: list[Change] = []
    notices: list[SubscriptionChanged] = []
    failed: list[SubscriptionEntry] = []
    for wish, known in zip(request.wishes, facts.named, strict=True):
        made = _change(node, wish, known, facts.most)
        if made is None:
            failed += _as_it_is(wish, known)
            continue
        for change, row, state in made:
            changes.append(change)
            for one in apart(row):
                notices.append(changed(one, state))
                notices += notify_owners(node, one, facts.owners, state)
    reply = Refused(Refusal.NOT_ALL_CHANGED, standing=tuple(failed)) if failed else Done()
    return Decision(reply, tuple(changes), tuple(notices))


def _named_twice(wishes: tuple[Wish, ...]) -> str | None:
    """Return the fault if a JID is named more than once: each entry has to name its subscription (8.8.2.4)."""
    often = {jid for jid, count in Counter(wish.jid for wish in wishes).items() if count > 1}
    if not often:
        return None
    if any(wish.subid is None for wish in wishes if wish.jid in often):
        return "a JID is named twice, without the subid of each"
    if len({(wish.jid, wish.subid) for wish in wishes}) < len(wishes):
        return "a subscription is named twice"
    return None


def _as_it_is(wish: Wish, known: Named) -> list[SubscriptionEntry]:
    row = known.subscription
    if row is None:
        return [SubscriptionEntry(wish.jid, SubscriptionState.NONE)]
    each = [one for one in apart(row) if wish.subid in {None, one.subid}] or [apart(row)[0]]
    return [SubscriptionEntry(one.jid, one.state, one.subid) for one in each]


Made = tuple[tuple[Change, Subscription, SubscriptionState], ...]


def _change(node: Node, wish: Wish, known: Named, most: int) -> Made | None:
    """Return the change that fulfils the wish, nothing if none is needed, None if it is impossible.

    If the JID has several subscriptions and none of them is named, all are meant.
    """
    one = known.subscription
    state = SubscriptionState.NONE if one is None else one.state
    if wish.subid is not None:
        found = None if one is None else find(one, wish.subid)
        if not isinstance(found, Subscription):
            return None
        one = found
    if wish.state in {None, state.value}:
        return ()
    if one is not None and wish.state == SubscriptionState.NONE.value:
        subid = named(one) if wish.subid is not None else None
        return ((EndSubscription(node.name, one.jid, subid), one, SubscriptionState.NONE),)
    if wish.state != SubscriptionState.SUBSCRIBED.value:
        return None
    if one is not None:
        return ((Approve(node.name, one.jid), one, SubscriptionState.SUBSCRIBED),)
    return _added(node, wish, known, most)


def _added(node: Node, wish: Wish, known: Named, most: int) -> Made | None:
    """Subscribe another JID, if it could subscribe itself; never to a queue, for which it has to set its window."""
    allowed = access.may(known.affiliation, Action.SUBSCRIBE, node) and node.config.subscribe
    if node.config.queueing or not allowed or known.of_account >= most:
        return None
    new = Subscription(node.name, wish.jid, wish.new_subid, 1, temporary=node.config.tempsub)
    return ((AddSubscription(new), new, SubscriptionState.SUBSCRIBED),)


def _managed(
    request: GetSubscriptions | SetSubscriptions, facts: SubscribersFacts
) -> Node | Decision:
    """Return the node if the principal may manage it (XEP-0060 14.2)."""
    if facts.node is None:
        return refuse(Refusal.NODE_NOT_FOUND)
    if not access.may(access.standing(request.by, facts.affiliation), Action.MANAGE, facts.node):
        return refuse(Refusal.FORBIDDEN)
    return facts.node
