"""Subscribe and unsubscribe (XEP-0060 6.1, 6.2), and the options of a subscription (6.3, 6.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.model.changes import (
    AddAnother,
    AddSubscription,
    Approve,
    EndSubscription,
    SetLevel,
    SetLockTimeout,
    SetTerms,
    SetWindow,
)
from pubqueue.model.decision import Decision, Read, Refusal, Refused, Request, refuse
from pubqueue.model.entities import (
    Affiliation,
    Draft,
    Level,
    Millis,
    SendLast,
    Subscription,
    SubscriptionState,
    Terms,
    account_of,
    later,
    seconds,
)
from pubqueue.model.notices import (
    ApprovalWanted,
    Several,
    SubscriptionChanged,
    announcement,
    notify,
)
from pubqueue.model.replies import DefaultOptions, Subscribed, Unsubscribed
from pubqueue.model.several_subscriptions import MAX_OF_JID, apart, find, named, terms_of, together
from pubqueue.rules import access
from pubqueue.rules.access import Action
from pubqueue.rules.deliveries import asks
from pubqueue.rules.presence import note_here, shows_itself

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pubqueue.model.changes import Change
    from pubqueue.model.entities import Item, Jid, Node, NodeName, Principal
    from pubqueue.model.notices import News


MAX_SUBSCRIPTIONS: Final = 1_000
"""Subscriptions of one account to one node, unless an operator sets another limit."""


class Subscribe(Request, frozen=True, gc=False):
    """Subscribe `jid`, with these options if there are any.

    `subid` is the id for the subscription, should it be a new one, and `at` the time at which the request came.
    """

    by: Principal
    node: NodeName
    jid: Jid
    subid: str
    options: Options | None = None
    at: Millis | None = None


class SetOptions(Request, frozen=True, gc=False):
    """Change the options of a subscription (XEP-0060 6.3.5), or only request them: None."""

    by: Principal
    node: NodeName
    jid: Jid
    subid: str | None
    options: Options | None = None


class GetDefaultOptions(Read, frozen=True, gc=False):
    """Request the default options of a subscription, to a node or to any (XEP-0060 6.4)."""

    node: NodeName | None = None


class Unsubscribe(Request, frozen=True, gc=False):
    """End the subscription of `jid`."""

    by: Principal
    node: NodeName
    jid: Jid
    subid: str | None = None


class SubscribeFacts(Struct, frozen=True, gc=False):
    """The node, the principal's affiliation, `jid`'s subscription, and the items that `jid` still holds.

    `of_account` counts the subscriptions of the account to the node, of which it may have `most`.
    `owners` are the owners that are notified of new subscribers.
    """

    now: Millis
    node: Node | None
    affiliation: Affiliation
    subscription: Subscription | None
    held: int = 0
    of_account: int = 0
    most: int = MAX_SUBSCRIPTIONS
    last: tuple[Item, bytes] | None = None
    """The newest item of a node that sends it to new subscribers."""
    owners: tuple[Jid, ...] = ()
    came: tuple[Jid, ...] = ()
    """Full JIDs of the account that sent presence recently, when it may have been a stranger."""
    here: tuple[Jid, ...] = ()
    """Full JIDs of the account that have shown themselves."""
    by_server: bool = True
    """Whether a server sent the request; a client that is connected to the service itself is here as long as it subscribes."""


class DefaultFacts(Struct, frozen=True, gc=False):
    """The requested node, and the principal's affiliation with it."""

    node: Node | None
    affiliation: Affiliation


def subscribe(request: Subscribe, facts: SubscribeFacts) -> Decision:
    """Decide a subscription; on a queue it needs a window, which is checked last (XEP-0254 row 33).

    A JID that subscribes already gets another subscription if the node allows several, else its
    existing one (XEP-0060 6.1.6).
    """
    node, before = facts.node, facts.subscription
    if account_of(request.jid) != request.by.account:
        return refuse(Refusal.FOREIGN_JID)
    if node is None:
        return refuse(Refusal.NODE_NOT_FOUND)
    if (no := objection(request.by, facts, node)) is not None:
        return no
    if before is not None:
        before = apart(before)[0]
    further = _has_further(node, facts.subscription)
    granted = grant(request.jid, request.options, node, None if further else before, facts.now)
    if isinstance(granted, Refused):
        return Decision(granted)
    if facts.subscription is not None and further:
        decision = _another(request, facts, node, facts.subscription, granted)
    elif before is not None:
        decision = _again(node, before, granted, facts.owners)
    else:
        waits = access.needs_approval(access.standing_of(request.by, facts.affiliation), node)
        decision = _anew(request, facts, node, granted, waits=waits)
    return _shown(request, facts, node, decision)


def _shown(request: Subscribe, facts: SubscribeFacts, node: Node, decision: Decision) -> Decision:
    """Note with a subscription which resources of the account have shown themselves: nothing of strangers is stored.

    A worker that subscribes its own full JID to a queue has shown itself, but that is no presence: its
    server reports that it leaves only if it sends presence, too.
    """
    if not isinstance(decision.reply, Subscribed):
        return decision
    shown = facts.by_server and node.config.queueing and request.jid == request.by.jid
    itself = (request.by.jid,) if shown else ()
    noted = [*note_here(facts.came, facts.here, itself)]
    noted += [shown for jid in itself for shown in shows_itself(jid, request.at)]
    return replace(decision, changes=(*decision.changes, *noted)) if noted else decision


def objection(by: Principal, facts: SubscribeFacts, node: Node) -> Decision | None:
    """Return why the principal may not subscribe, with any options."""
    affiliation = access.standing_of(by, facts.affiliation)
    if (closed := access.barred(affiliation, node)) is not None:
        return refuse(closed)
    if by.anonymous:  # XEP-0060 6.1.3.6
        return refuse(Refusal.FORBIDDEN, "anonymous users may not subscribe")
    if not access.may(affiliation, Action.SUBSCRIBE, node):
        no = (
            access.stranger(by, node, facts.owners)
            if affiliation is Affiliation.NONE
            else Refusal.FORBIDDEN
        )
        if no is not None:
            return refuse(no) if isinstance(no, Refusal) else Decision(no)
    if not node.config.subscribe:  # XEP-0060 6.1.3.10
        return Decision(Refused(Refusal.UNSUPPORTED, setting="subscribe"))
    before = facts.subscription
    pending = before is not None and before.state is SubscriptionState.PENDING
    if pending and access.needs_approval(affiliation, node):
        return refuse(Refusal.PENDING_SUBSCRIPTION)  # XEP-0060 6.1.3.7
    return None


def _anew(
    request: Subscribe, facts: SubscribeFacts, node: Node, granted: Granted, *, waits: bool
) -> Decision:
    """Create a subscription, if the account does not have too many; one that has to be approved waits (XEP-0060 6.1.4)."""
    if node.config.queueing and granted.queue_requests is None:
        return refuse(Refusal.CONFIGURATION_REQUIRED, limit=node.config.max_queue_requests)
    if facts.of_account >= facts.most:  # XEP-0060 6.1.3.9
        return refuse(Refusal.TOO_MANY_SUBSCRIPTIONS, limit=facts.most)
    new = Subscription(
        node=node.name,
        jid=request.jid,
        subid=request.subid,
        queue_requests=granted.queue_requests or 1,
        in_flight=facts.held,
        available=granted.deliver and not waits,
        state=SubscriptionState.PENDING if waits else SubscriptionState.SUBSCRIBED,
        deliver=granted.deliver,
        expire=granted.expire,
        remind=granted.remind,
        temporary=granted.temporary,
        lock_timeout=granted.lock_timeout,
        qos=granted.qos,
    )
    reply = _subscribed(node, new, granted)
    if waits:
        return Decision(reply, (AddSubscription(new),), tuple(wanted(new, facts.owners)))
    announced = (*notify_owners(node, new, facts.owners), *last_item(node, new, facts.last))
    return Decision(reply, (AddSubscription(new),), announced)


def _subscribed(node: Node, one: Subscription, granted: Granted) -> Subscribed:
    """Return the answer to its subscriber."""
    return Subscribed(one, node.config.queueing, granted.configured, asks(node.config, one))


def _has_further(node: Node, before: Subscription | None) -> bool:
    """Return whether a JID that subscribes again gets another subscription; one that waits for an owner does not."""
    stands = before is not None and before.state is SubscriptionState.SUBSCRIBED
    return stands and node.config.multi_subscribe and not node.config.queueing


def _another(
    request: Subscribe, facts: SubscribeFacts, node: Node, before: Subscription, granted: Granted
) -> Decision:
    """Add another subscription of a JID; an owner has approved the first if that was needed."""
    if facts.of_account >= facts.most:
        return refuse(Refusal.TOO_MANY_SUBSCRIPTIONS, limit=facts.most)
    if len(terms_of(before)) >= MAX_OF_JID:
        reason = f"a JID has at most {MAX_OF_JID} subscriptions to a node"
        return refuse(Refusal.TOO_MANY_SUBSCRIPTIONS, reason)
    terms = Terms(request.subid, granted.deliver, granted.expire, granted.remind, granted.temporary)
    new = apart(together(before, (*terms_of(before), terms)))[-1]
    reply = Subscribed(new, queueing=False, configured=granted.configured)
    announced = (*notify_owners(node, new, facts.owners), *last_item(node, new, facts.last))
    return Decision(reply, (AddAnother(node.name, request.jid, terms),), announced)


def last_item(node: Node, new: Subscription, last: tuple[Item, bytes] | None) -> tuple[News, ...]:
    """Send the last item to a new subscriber, if the node does so (XEP-0060 6.1.7, 12.10)."""
    if (
        last is None
        or not new.listens
        or node.config.send_last_published_item is not SendLast.ON_SUB
    ):
        return ()
    item, payload = last
    draft = Draft(item.id, payload, headers=item.headers)
    announced = announcement(node, draft, item.publisher, item.published)
    if new.several:
        return notify(node, Several((new.jid,), {new.jid: (new.subid,)}), announced)
    return notify(node, (new.jid,), announced)


def wanted(pending: Subscription, owners: Iterable[Jid]) -> Iterator[ApprovalWanted]:
    """Ask the owners to approve a subscription; the first answer decides (XEP-0060 12.13)."""
    return (ApprovalWanted(owner, pending.node, pending.jid, pending.subid) for owner in owners)


def notify_owners(
    node: Node,
    one: Subscription,
    owners: Iterable[Jid],
    state: SubscriptionState = SubscriptionState.SUBSCRIBED,
) -> Iterator[SubscriptionChanged]:
    """Notify the owners of a new or former subscriber, if the node does so (XEP-0060 16.4.4, notify_sub)."""
    if node.config.notify_sub:
        for owner in owners:
            yield SubscriptionChanged(owner, one.node, state, one.subid, about=one.jid)


def _again(node: Node, held: Subscription, granted: Granted, owners: tuple[Jid, ...]) -> Decision:
    """Answer a JID that subscribes already: its state, with other options if they are requested.

    A pending subscription becomes active if it needs no approval any more.
    """
    changes: list[Change] = []
    notices: tuple[SubscriptionChanged, ...] = ()
    before = held
    if held.state is SubscriptionState.PENDING:
        changes.append(Approve(node.name, held.jid))
        held = replace(held, state=SubscriptionState.SUBSCRIBED)
        held = replace(held, available=held.listens)
        notices = tuple(notify_owners(node, held, owners))
    after, others = _with(node, held, granted)
    if node.config.queueing and not after.available and after.listens:
        after = replace(after, available=True)
        others = [SetWindow(node.name, held.jid, after.queue_requests), *others]
    changes += others
    reply = _subscribed(node, after, granted)
    return Decision(reply, () if after == before else tuple(changes), notices)


def _with(node: Node, held: Subscription, granted: Granted) -> tuple[Subscription, list[Change]]:
    """Return the subscription with these options, and the changes that make it so."""
    changes: list[Change] = []
    after = held
    window = granted.queue_requests
    if window is not None and (window != held.queue_requests or not held.available):
        changes.append(SetWindow(node.name, held.jid, window))
        after = replace(after, queue_requests=window, available=held.listens)
    terms = granted.deliver, granted.expire, granted.remind, granted.temporary
    if terms != (held.deliver, held.expire, held.remind, held.temporary):
        changes.append(SetTerms(node.name, held.jid, *terms, named(held)))
        deliver, expire, remind, temporary = terms
        announced = {"expire": expire, "remind": remind, "temporary": temporary}
        after = replace(after, deliver=deliver, **announced)
        if after.listens != held.listens:
            after = replace(after, available=after.listens)
    if granted.lock_timeout != held.lock_timeout:
        changes.append(SetLockTimeout(node.name, held.jid, granted.lock_timeout))
        after = replace(after, lock_timeout=granted.lock_timeout)
    if granted.qos != held.qos:
        changes.append(SetLevel(node.name, held.jid, granted.qos))
        after = replace(after, qos=granted.qos)
    return after, changes


def set_options(request: SetOptions, facts: SubscribeFacts) -> Decision:
    """Decide about the options of a subscription. Lowering the window recalls nothing (row 23)."""
    found = _own(request, facts)
    if isinstance(found, Decision):
        return found
    node, subscription = found
    if request.options is None:
        return Decision(Subscribed(subscription, node.config.queueing))
    granted = grant(request.jid, request.options, node, subscription, facts.now)
    if isinstance(granted, Refused):
        return Decision(granted)
    after, changes = _with(node, subscription, granted)
    return Decision(_subscribed(node, after, granted), tuple(changes))


def get_default_options(request: GetDefaultOptions, facts: DefaultFacts) -> Decision:
    """Return the options of a new subscription."""
    node = facts.node
    if request.node is None:
        return Decision(DefaultOptions(None))
    if node is None:
        return refuse(Refusal.NODE_NOT_FOUND)
    standing = access.standing_of(request.by, facts.affiliation)
    if (closed := access.barred(standing, node)) is not None:
        return refuse(closed)
    limit = node.config.max_queue_requests if node.config.queueing else None
    return Decision(DefaultOptions(node.name, node.config.tempsub, limit))


def unsubscribe(request: Unsubscribe, facts: SubscribeFacts) -> Decision:
    """Decide an unsubscription. Locks stay with the JID until settled or timed out (row 19)."""
    found = _own(request, facts)
    if isinstance(found, Decision):
        return found
    node, subscription = found
    announced = notify_owners(node, subscription, facts.owners, SubscriptionState.NONE)
    pending = subscription.state is SubscriptionState.PENDING
    change = EndSubscription(subscription.node, subscription.jid, named(subscription))
    return Decision(Unsubscribed(subscription), (change,), () if pending else tuple(announced))


def _own(
    request: SetOptions | Unsubscribe, facts: SubscribeFacts
) -> tuple[Node, Subscription] | Decision:
    """Find the subscription of the request, or return why not (XEP-0060 6.2.3, 6.3.4).

    An id is needed only if the JID has several; an id that is given has to match.
    """
    if facts.node is None:
        return refuse(Refusal.NODE_NOT_FOUND)
    if account_of(request.jid) != request.by.account:
        return refuse(Refusal.FORBIDDEN)
    if facts.subscription is None:
        return refuse(Refusal.NOT_SUBSCRIBED)
    found = find(facts.subscription, request.subid)
    return refuse(found) if isinstance(found, Refusal) else (facts.node, found)


# The options of a subscription (XEP-0060 6.3): its window, whether anything is delivered, and when it ends.
#
# A value that the service would not act on is refused: nothing is accepted and then ignored.

WINDOW: Final = "queue_requests"
DELIVER: Final = "deliver"
EXPIRE: Final = "expire"
LOCK: Final = "lock_timeout"
LEVEL: Final = "qos"
"""The options by their names here."""

MAX_LEASE: Final = seconds(366 * 86_400)
"""A longer lease is shortened to this (XEP-0060 12.19)."""

REMINDED_AHEAD: Final = seconds(86_400)
"""The time between the reminder and the end of a lease, or a tenth of a short lease."""


class Lease(Struct, frozen=True, gc=False):
    """How long a subscription lasts: until a moment, while its JID is available, or until it is ended."""

    until: Millis | None = None
    temporary: bool = False


class Options(Struct, frozen=True, gc=False):
    """Requested options of a subscription; None for an option that is not given. The window is text or a number.

    `objection` is what the face could not read; without a number it counts even if there is no
    window.
    """

    queue_requests: str | int | None = None
    objection: Refused | None = None
    deliver: bool | None = None
    lease: Lease | None = None
    lock_timeout: str | int | None = None
    """Seconds; as text it may be empty: the queue's own again."""
    qos: str | None = None
    """The level of deliveries; it may be empty: that of the queue again."""


class Granted(Struct, frozen=True, gc=False):
    """The options that a subscription will have. Without a window (None) none has ever been requested.

    `configured` means that options other than the window were requested.
    """

    queue_requests: int | None
    deliver: bool
    expire: Millis | None
    remind: Millis | None
    temporary: bool
    configured: bool = False
    lock_timeout: int | None = None
    qos: Level | None = None


def grant(
    jid: Jid, options: Options | None, node: Node, before: Subscription | None, now: Millis
) -> Granted | Refused:
    """Return the granted options for those that `jid` requests; the others stay as they were `before`."""
    window = read_window(options, node, has_one=before is not None)
    if isinstance(window, Refused):
        return window
    lock = read_lock_timeout(options, node, before)
    if isinstance(lock, Refused):
        return lock
    level = read_level(jid, options, node, before)
    if isinstance(level, Refused):
        return level
    deliver = before is None or before.deliver
    expire = None if before is None else before.expire
    remind = None if before is None else before.remind
    temporary = node.config.tempsub if before is None else before.temporary
    configured = options is not None and (options.lock_timeout, options.qos) != (None, None)
    if options is not None and options.deliver is not None:
        deliver, configured = options.deliver, True
    if options is not None and options.lease is not None:
        lease, configured = options.lease, True
        if lease.until is not None and lease.until <= now:
            return _no(f"{EXPIRE}: a future date and time", EXPIRE)
        expire, remind = _term(lease, now)
        temporary = lease.temporary or node.config.tempsub
    return Granted(window, deliver, expire, remind, temporary, configured, lock, level)


def _term(lease: Lease, now: Millis) -> tuple[Millis | None, Millis | None]:
    """Return when the lease ends, and when the reminder is due."""
    if lease.until is None:
        return None, None
    end = min(lease.until, later(now, MAX_LEASE))
    return end, Millis(end - min(REMINDED_AHEAD, (end - now) // 10))


def read_window(options: Options | None, node: Node, *, has_one: bool) -> int | Refused | None:
    """Return the window that the options ask for, up to the node's bound (XEP-0254 row 7).

    None means that none was requested. Only a queue node has windows; a subscription that `has_one` may request
    other options alone.
    """
    if options is None:
        return None
    asked = options.queue_requests
    if not node.config.queueing:
        return (
            options.objection
            if asked is None
            else _no(f"{WINDOW}: only queues have this option", WINDOW)
        )
    if options.objection is not None:
        return options.objection
    if asked is None:
        given = options.deliver, options.lease, options.lock_timeout, options.qos
        others = any(one is not None for one in given)
        return None if has_one and others else _no(f"{WINDOW} is needed, once", WINDOW)
    digits = str(asked).strip()
    if not (digits.isascii() and digits.isdigit()) or int(digits[:10]) < 1:
        return _no(f"{WINDOW}: a whole number from 1", WINDOW)
    return min(int(digits[:10]), node.config.max_queue_requests)


def read_lock_timeout(
    options: Options | None, node: Node, before: Subscription | None
) -> int | Refused | None:
    """Return how many seconds the subscriber may hold an item, up to the queue's own limit; None for the queue's own."""
    asked = None if options is None else options.lock_timeout
    if asked is None:
        return None if before is None else before.lock_timeout
    if not node.config.queueing:
        return _no(f"{LOCK}: only queues have this option", LOCK)
    digits = str(asked).strip()
    if not digits:
        return None
    if not (digits.isascii() and digits.isdigit()) or int(digits[:10]) < 1:
        return _no(
            f"{LOCK}: a whole number of seconds from 1, or empty for that of the queue", LOCK
        )
    return min(int(digits[:10]), node.config.lock_timeout)


def read_level(
    jid: Jid, options: Options | None, node: Node, before: Subscription | None
) -> Level | Refused | None:
    """Return the level of deliveries to the subscriber; None for that of the queue. Only a full JID can answer."""
    asked = None if options is None else options.qos
    if asked is None:
        return None if before is None else before.qos
    if not node.config.queueing:
        return _no(f"{LEVEL}: only queues have this option", LEVEL)
    word = asked.strip()
    if word and word not in set(Level):
        return _no(f"{LEVEL}: one of {', '.join(Level)}, or empty for that of the queue", LEVEL)
    level = Level(word) if word else None
    if level not in {None, Level.UNACKNOWLEDGED} and account_of(jid) == jid:
        return _no(f"{LEVEL} is always {Level.UNACKNOWLEDGED} for a bare JID", LEVEL)
    return level


def _no(reason: str, setting: str = "") -> Refused:
    return Refused(Refusal.INVALID_OPTIONS, reason, setting=setting)
