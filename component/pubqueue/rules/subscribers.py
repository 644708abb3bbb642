"""The subscribers of a node for its owners (XEP-0060 8.8), and those that wait for approval (8.6, 8.7)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.model.changes import AddSubscription, Approve, Change, EndSubscription, SetQuiet
from pubqueue.model.decision import (
    Decision,
    Done,
    Read,
    Refusal,
    Refused,
    Request,
    SubscriptionEntry,
    refuse,
)
from pubqueue.model.entities import (
    Affiliation,
    Item,
    Jid,
    Node,
    NodeName,
    Principal,
    Subscription,
    SubscriptionState,
    account_of,
)
from pubqueue.model.notices import ApprovalWanted, SubscriptionChanged
from pubqueue.model.replies import WHOLE, Listed, NodeSubscriptions, Page, Part, Quieted
from pubqueue.model.several_subscriptions import apart, find, named
from pubqueue.rules import access
from pubqueue.rules.access import Action
from pubqueue.rules.subscribe import MAX_SUBSCRIPTIONS, last_item, notify_owners

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


# The subscribers of a node, for its owners to see and to change (XEP-0060 8.8).


class GetSubscriptions(Read, frozen=True, gc=False):
    """Ask for the subscribers of the node (XEP-0060 8.8.1)."""

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


class SetSubscriptions(Request, frozen=True, gc=False):
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
    node = _managed(request.by, facts)
    if isinstance(node, Decision):
        return node
    return Decision(NodeSubscriptions(node.name, facts.page, facts.part))


def set_subscriptions(request: SetSubscriptions, facts: SubscribersFacts) -> Decision:
    """Make the possible changes, notify the subscribers, and name the failed entries (XEP-0060 8.8.2.4)."""
    node = _managed(request.by, facts)
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


def _managed(by: Principal, facts: SubscribersFacts | QuietFacts | PendingFacts) -> Node | Decision:
    """Return the node if the principal may manage it, and approve its subscriptions (XEP-0060 8.7.3, 14.2)."""
    if facts.node is None:
        return refuse(Refusal.NODE_NOT_FOUND)
    if not access.may(access.standing_of(by, facts.affiliation), Action.MANAGE, facts.node):
        return refuse(Refusal.FORBIDDEN)
    return facts.node


# A worker that is quiet gets no further items, and settles what it holds: before a deploy, or while it is looked at.
#
# It is a part of its subscription: kept over restarts of the service, and over the worker's own absence, until it is resumed or
# the subscription ends. A connection that asks for items itself, as a stream of gRPC does, has no subscription that is stored: it is
# quiet until it is resumed or ends, at the instance that it is connected to.


class QuietWorker(Request, frozen=True, gc=False):
    """Let exactly this JID get no further items of the queue, or resume it."""

    by: Principal
    node: NodeName
    jid: Jid
    quiet: bool


class QuietFacts(Struct, frozen=True, gc=False):
    """The node, the principal's affiliation, and the subscription.

    `asking` is how many items the connection of this address holds, if it is here and asks for items of the node itself.
    """

    node: Node | None
    affiliation: Affiliation
    subscription: Subscription | None
    asking: int | None = None


def quiet_worker(request: QuietWorker, facts: QuietFacts) -> Decision:
    """Decide whether the worker is quiet from now on; the same again changes nothing."""
    node, one = _managed(request.by, facts), facts.subscription
    if isinstance(node, Decision):
        return node
    if not node.config.queueing:
        return refuse(Refusal.NOT_A_QUEUE)
    if one is None and facts.asking is not None:
        return Decision(Quieted(node.name, facts.asking, asking=True))
    if one is None or one.state is not SubscriptionState.SUBSCRIBED:
        return refuse(Refusal.NOT_SUBSCRIBED, f"{request.jid} does not subscribe to {node.name}")
    again = one.quiet is request.quiet
    changes = () if again else (SetQuiet(node.name, one.jid, request.quiet),)
    return Decision(Quieted(node.name, one.in_flight), changes)


# Subscriptions that wait for an owner's approval (XEP-0060 8.6, 8.7), and the owners' answers.

AT_ONCE: Final = 100
"""Up to how many requests for approval an owner is sent at once; the others follow as these are answered and more are requested."""


class Answer(Request, frozen=True, gc=False):
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


class ReadPending(Read, frozen=True, gc=False):
    """Request the nodes whose subscriptions the principal approves, or the waiting subscriptions of one node."""

    node: NodeName | None = None
    page: Page | None = None


class SendPending(Request, frozen=True, gc=False):
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
    if not access.may(access.standing_of(request.by, facts.affiliation), Action.MANAGE, node):
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
    node = _managed(request.by, facts)
    if isinstance(node, Decision):
        return node
    return Decision(NodeSubscriptions(node.name, facts.waiting, facts.part))


def send_pending(request: SendPending, facts: PendingFacts) -> Decision:
    """Send an owner the waiting subscriptions, as many as are sent at once."""
    node = _managed(request.by, facts)
    if isinstance(node, Decision):
        return node
    by = request.by.jid
    notices = tuple(ApprovalWanted(by, node.name, one.jid, one.subid) for one in facts.waiting)
    return Decision(Done(), (), notices)
