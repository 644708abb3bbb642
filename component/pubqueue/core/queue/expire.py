"""The effects of time and absence on items: locks that expire, holders that leave, items that expire unclaimed.

A failure is counted for the item (`failed`), never for the queue: the item is delivered to another
subscriber at once, then after growing pauses, and is dead after `max_failures`. Dead items stay or
move to the dead-letter node; none is dropped.
"""

from __future__ import annotations

import enum
from collections import Counter
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.core.addresses import account_of
from pubqueue.core.changes import (
    Change,
    EndSubscription,
    Forget,
    ForgetResource,
    HearOf,
    NoteResource,
    NoteUnanswered,
    RemoveItem,
    Ripen,
    SetAvailable,
    SetTerms,
)
from pubqueue.core.decision import Decision, Done, Expired, Overdue
from pubqueue.core.model import SubscriptionState, later, mark_of, seconds
from pubqueue.core.multi_subscription import apart, named
from pubqueue.core.notices import Notice, SubscriptionChanged, Unlocked
from pubqueue.core.queue.give_back import Case, fail, give_up, in_their_places, release
from pubqueue.core.transactions.model import Abort, Sweep

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pubqueue.core.model import Item, Jid, Millis, Node, NodeName, Subscription

MAX_RESOURCES: Final = 100
"""Full JIDs of an account that are known to be here, at most."""

MAX_TIMEOUTS: Final = 2
"""Locks that may time out in a row, beyond a window full of them, before a silent subscriber gets nothing more."""

FIRST_PAUSE: Final = 1
MAX_PAUSE: Final = 60
"""Seconds for which nothing is handed to whom deliveries come back: doubling with each window full of them."""

TIMED_OUT: Final = "the lock timed out"
WORKER_LOST: Final = "the worker went away"
TOO_OLD: Final = "the time to live ended"

SLICE: Final = 4_000
"""Staged items that one step sweeps at most, so that a batch stays short."""


FORGOTTEN: Final = 1_000
"""Ids of finished work that one step forgets at most; the next step follows at once while there are more."""


Key = tuple[str, ...]
"""What a row that has run out is known by: its kind, and its names."""


class Expire(Struct, frozen=True, gc=False):
    """Do what the clock demands: end what has run out, but for rows that are put `aside`, or `only` these rows.

    The reply names the schedules that are due, if there are any, unless `only` names rows.
    """

    aside: frozenset[Key] = frozenset()
    only: frozenset[Key] | None = None

    def takes(self, key: Key) -> bool:
        """Return whether the row has to be ended."""
        return key in self.only if self.only is not None else key not in self.aside


class ListOverdue(Struct, frozen=True, gc=False):
    """Ask which rows have run out, as many as one batch ends."""


class OverdueFacts(Struct, frozen=True, gc=False):
    """Their keys."""

    keys: tuple[Key, ...]


def list_overdue(_request: ListOverdue, facts: OverdueFacts) -> Decision:
    """Return the rows that have expired, for the service."""
    return Decision(Overdue(facts.keys))


def of_item(item: Item) -> Key:
    """Return the key of an item whose lock, pause or lifetime has ended."""
    return item_key(item.node, item.id)


def item_key(node: str, item: str) -> Key:
    """Return the key of an item by its names."""
    return "item", node, item


def of_version(app: str, number: int) -> Key:
    """Return the key of an open version that was not committed in time."""
    return "version", app, str(number)


def of_lease(row: Subscription) -> Key:
    """Return the key of a subscription whose lease has ended, or is due for its reminder."""
    return lease_key(row.node, row.jid)


def lease_key(node: str, jid: str) -> Key:
    """Return the key of a subscription by its names."""
    return "lease", node, jid


class ExpireFacts(Struct, frozen=True, gc=False):
    """The rows that have expired by `now`: pauses of items, locks, lifetimes of items that are not locked."""

    now: Millis
    ripe: tuple[Item, ...]
    locks: tuple[Case, ...]
    lives: tuple[Case, ...]
    holders: tuple[Subscription, ...] = ()
    """The subscriptions under which the locks were given, as far as they stand."""
    overdue: tuple[tuple[str, int], ...] = ()
    """Open versions of transactions that were not committed in time."""
    sweepable: Millis | None = None
    """Until when records of transactions are too old, if anything of them is to be swept."""
    leases: tuple[Subscription, ...] = ()
    """Subscriptions whose lease has ended, or is due for its reminder."""
    unread: tuple[Key, ...] = ()
    """What has run out and cannot be read."""
    schedules: tuple[str, ...] = ()
    """The names of those that are due."""
    more_to_forget: bool = False
    """Whether there are more than FORGOTTEN ids of finished work that no longer count."""


class Arrive(Struct, frozen=True, gc=False):
    """A full JID has sent available presence."""

    jid: Jid


class ArriveFacts(Struct, frozen=True, gc=False):
    """The subscriptions of the full JID and of its account, and which full JIDs of the account we saw come, in order.

    It `is_somebody` if it holds an item, or its account has an affiliation or a subscription anywhere.
    """

    subscriptions: tuple[Subscription, ...]
    here: tuple[Jid, ...] = ()
    is_somebody: bool = False


class Departure(enum.Enum):
    """How an address has gone: whether it may come back, and whether what it held counts as a failure."""

    AWAY = enum.auto()
    """It is unavailable, as a JID may be that comes back later."""
    LOST = enum.auto()
    """Its connection broke. A connection never comes back: another one has another address."""
    CLOSED = enum.auto()
    """It has closed its connection in order, so what it held is released."""
    INSTANCE_DIED = enum.auto()
    """The instance that had the connection has died. That is not the worker's failure."""

    @property
    def is_final(self) -> bool:
        """Whether the address does not come back."""
        return self is not Departure.AWAY

    @property
    def is_failure(self) -> bool:
        """Whether what it held has failed."""
        return self in {Departure.AWAY, Departure.LOST}


class Leave(Struct, frozen=True, gc=False):
    """A JID has become unavailable; this was reported at the time `at`, where that may be long ago."""

    jid: Jid
    at: Millis | None = None
    how: Departure = Departure.AWAY


class LeaveFacts(Struct, frozen=True, gc=False):
    """The subscriptions of the leaver and its account, and some of the items they hold; the holders in `more` may hold more.

    `is_here` means that the service saw the leaver arrive; `is_last`, that it is the only resource
    of its account that the service saw. All locks given so far are below the token `unused`, which
    is loaded if it matters.
    """

    now: Millis
    held: tuple[Case, ...]
    subscriptions: tuple[tuple[Subscription, Node], ...]
    is_here: bool = False
    is_last: bool = False
    more: tuple[Jid, ...] = ()
    unused: int = 0


class FreeLeft(Struct, frozen=True, gc=False):
    """Free the next of the items that `jid` held when it left, from the first of `holders`, after `after`.

    Their tokens are below `unused`, which excludes items that were delivered after a return.
    `freed` were freed in the slices before.
    """

    jid: Jid
    holders: tuple[Jid, ...]
    unused: int
    after: int = 0
    freed: int = 0
    how: Departure = Departure.AWAY


class FreeLeftFacts(Struct, frozen=True, gc=False):
    """The next items of the holder; it may hold more after the number `last`, None at the end."""

    now: Millis
    held: tuple[Case, ...]
    last: int | None = None


class Bounce(Struct, frozen=True, gc=False):
    """A delivery `bounced`, or could not be sent. `gone` means that the address no longer exists.

    `mark` is that of the subscription under which the item was delivered (`mark_of`).
    """

    to: Jid
    seq: int
    token: int
    gone: bool
    bounced: bool = False
    mark: str = ""


class BounceFacts(Struct, frozen=True, gc=False):
    """The item, if it is still locked under that very token, and the addressee's subscription.

    The addressee has shown activity after all locks with tokens below `heard_of` were given.
    """

    now: Millis
    case: Case | None
    subscription: Subscription | None
    heard_of: int = 0


def expire(request: Expire, facts: ExpireFacts) -> Decision:
    """End what has expired, and notify former holders (XEP-0254 4: send an unlock notification).

    The lifetime of a delayed item may have ended as well: then the item expires. Ids of finished
    work have no moment of their own, so while there are more to forget, another step follows; other
    requests have their batches between the steps.
    """
    ends = [fail(case, facts.now, TIMED_OUT) for case in facts.locks]
    ends += [_too_old(case, facts.now) for case in facts.lives]
    changes: list[Change] = [*in_their_places(ends, [*facts.locks, *facts.lives])]
    ended = {case.item.seq for case in facts.lives}
    changes += [Ripen(item) for item in facts.ripe if item.seq not in ended]
    changes += _silence(facts.holders, Counter(_lock_of(case.item) for case in facts.locks))
    if request.only is None:
        changes.append(Forget(facts.now, FORGOTTEN))
    changes += [Abort(app, version) for app, version in facts.overdue]
    if facts.sweepable is not None:
        changes.append(Sweep(facts.sweepable, SLICE))
    items = [case.item for case in facts.locks]
    notices: list[Notice] = [
        Unlocked(item.holder, item.node, (item.id,)) for item in items if item.holder is not None
    ]
    for row in facts.leases:
        for change, notice in _of_leases(row, facts.now):
            changes.append(change)
            notices.append(notice)
    then = request if facts.more_to_forget else None
    named = facts.schedules or facts.unread
    reply = Expired(facts.schedules, facts.unread) if named else Done()
    return Decision(reply, tuple(changes), tuple(notices), then=then)


def _of_leases(row: Subscription, now: Millis) -> Iterator[tuple[Change, Notice]]:
    """Do what is to be done for the leases of a JID's subscriptions to a node."""
    for one in apart(row):
        if one.ends_next is not None and one.ends_next <= now:
            yield _of_lease(one, now)


def _of_lease(one: Subscription, now: Millis) -> tuple[Change, Notice]:
    """End a subscription whose lease is over, with a notification; or send the reminder (XEP-0060 12.19)."""
    if one.expire is not None and one.expire <= now:
        none = SubscriptionChanged(one.jid, one.node, SubscriptionState.NONE, one.subid)
        return EndSubscription(one.node, one.jid, named(one)), none
    terms = one.deliver, one.expire, None, one.temporary
    reminded = SetTerms(one.node, one.jid, *terms, named(one))
    return reminded, SubscriptionChanged(one.jid, one.node, one.state, one.subid, one.expire)


def _too_old(case: Case, now: Millis) -> Change:
    """End a life: work is dead, an item of a plain node is gone (XEP-0060 16.4.4, item_expire)."""
    if not case.node.config.queueing:
        return RemoveItem(case.item)
    return give_up(case, now, TOO_OLD, failed=case.item.failed)


def _lock_of(item: Item) -> tuple[NodeName, Jid | None]:
    return item.node, item.holder


def _silence(
    holders: Iterable[Subscription], timeouts: Mapping[tuple[NodeName, Jid | None], int]
) -> Iterator[Change]:
    """Count the timeouts; a subscriber with more than a window of them in a row gets no more deliveries.

    Otherwise a worker that died without an unavailable presence would delay items by a lock timeout
    each, for ever. Any sign of life resets it.
    """
    for holder in holders:
        unanswered = holder.unanswered + timeouts[holder.node, holder.jid]
        silenced = unanswered > holder.queue_requests + MAX_TIMEOUTS
        yield NoteUnanswered(holder.node, holder.jid, unanswered, silenced=silenced)


def arrive(request: Arrive, facts: ArriveFacts) -> Decision:
    """Resume deliveries to an address that has become available and still has subscriptions.

    Any address can send presence: it is kept only for addresses that are known here.
    """
    known = facts.is_somebody or bool(facts.subscriptions)
    changes: list[Change] = []
    if known:
        changes += [*note_here((request.jid,), facts.here), *shows_itself(request.jid)]
    changes += [
        SetAvailable(subscription.node, subscription.jid, available=True)
        for subscription in facts.subscriptions
        if not subscription.available or subscription.unanswered
    ]
    return Decision(Done(), tuple(changes))


def shows_itself(jid: Jid) -> tuple[HearOf, ...]:
    """Note that a full JID has shown activity now."""
    return () if account_of(jid) == jid else (HearOf(jid),)


def note_here(came: Iterable[Jid], here: tuple[Jid, ...]) -> Iterator[Change]:
    """Add full JIDs to those of an account that are known to be available; of too many the first are dropped."""
    new = [jid for jid in dict.fromkeys(came) if account_of(jid) != jid and jid not in here]
    yield from map(NoteResource, new[-MAX_RESOURCES:])
    too_many = max(0, len(here) + min(len(new), MAX_RESOURCES) - MAX_RESOURCES)
    yield from map(ForgetResource, here[:too_many])


def leave(request: Leave, facts: LeaveFacts) -> Decision:
    """Free the leaver's items and end its subscriptions; it gets no notification, because it is gone.

    The account leaves with the last of its resources that the service saw arrive (row 21); a
    resource that it never saw leaves alone, and so does a connection that never comes back. Deliveries to it stop at once; items beyond a slice are
    freed in the next slices.

    A report that could not be decided in time ends no lock that was given after it, and no
    subscription if there is one.
    """
    gone = {request.jid}
    if facts.is_last and not request.how.is_final:
        gone.add(account_of(request.jid))
    held = [case for case in facts.held if case.item.holder in gone]
    if request.at is not None and any(_locked_after(request.at, case.item) for case in held):
        # an earlier session has ended: a later one works under the same address
        before = [case for case in held if not _locked_after(request.at, case.item)]
        return Decision(Done(), tuple(_freed(before, facts.now, request.how)))
    changes: list[Change] = [*_freed(held, facts.now, request.how)]
    if facts.is_here:
        changes.append(ForgetResource(request.jid))
    for subscription, node in facts.subscriptions:
        if subscription.jid not in gone:
            continue
        if request.how.is_final:
            changes.append(EndSubscription(subscription.node, subscription.jid))
            continue
        each = apart(subscription)
        ending = [one for one in each if one.temporary or node.config.tempsub]  # XEP-0060 12.5
        if len(ending) == len(each) or (
            node.config.queueing and node.config.unsubscribe_on_unavailable
        ):
            changes.append(EndSubscription(subscription.node, subscription.jid))
            continue
        changes += [EndSubscription(one.node, one.jid, one.subid) for one in ending]
        if node.config.queueing:
            changes.append(SetAvailable(subscription.node, subscription.jid, available=False))
    rest = tuple(jid for jid in facts.more if jid in gone)
    then = None
    if rest:
        then = FreeLeft(request.jid, rest, facts.unused, freed=len(held), how=request.how)
    return Decision(Done(), tuple(changes), then=then)


def _locked_after(moment: Millis, item: Item) -> bool:
    """Return whether the lock was given after this moment."""
    return item.taken is not None and item.taken > moment


def free_left(request: FreeLeft, facts: FreeLeftFacts) -> Decision:
    """Free a slice of the items that were held when the leaver left.

    If the service is killed before the last slice, the rest stays locked until the server reports
    again that the holder is gone, or the locks time out.
    """
    meant = [case for case in facts.held if case.item.token < request.unused]
    freed = request.freed + len(meant)
    rest = request.holders if facts.last is not None else request.holders[1:]
    then = replace(request, holders=rest, after=facts.last or 0, freed=freed) if rest else None
    return Decision(Done(), tuple(_freed(meant, facts.now, request.how)), then=then)


def _freed(held: Sequence[Case], now: Millis, how: Departure) -> Iterator[Change]:
    """End the locks of a JID that has left."""
    if how.is_failure:
        return in_their_places([fail(case, now, WORKER_LOST) for case in held], held)
    return iter([release(case.item, case.node, now) for case in held])


def bounce(request: Bounce, facts: BounceFacts) -> Decision:
    """Free an item whose delivery bounced, without counting a failure (XEP-0060 12.4).

    A subscription ends only if the address is gone, and only the one under which the item was
    delivered: its account is notified. If the lock is over, or the address has shown activity
    since, the report is outdated and ends none: it is about an earlier session. Other errors are
    temporary: the subscription stays, and gets nothing for a while, because otherwise items would
    be delivered and bounce in a loop.
    """
    changes: list[Change] = []
    case, subscription = facts.case, facts.subscription
    held = case is not None and case.item.holder in {request.to, account_of(request.to)}
    if case is not None and held:
        changes.append(release(case.item, case.node, facts.now))
    if subscription is None or not request.bounced or request.mark != mark_of(subscription.subid):
        return Decision(Done(), tuple(changes))
    if request.gone:
        if not held or request.token < facts.heard_of:
            return Decision(Done(), tuple(changes))
        changes.append(EndSubscription(subscription.node, subscription.jid))
        return Decision(Done(), tuple(changes), (_ended(subscription),))
    if held:
        changes.append(_hold_back(subscription, facts.now))
    return Decision(Done(), tuple(changes))


def _ended(one: Subscription) -> SubscriptionChanged:
    """Notify the account of a JID that is gone that its subscription has ended (XEP-0060 12.14)."""
    none, to = SubscriptionState.NONE, account_of(one.jid)
    return SubscriptionChanged(to, one.node, none, one.subid, about=one.jid)


def _hold_back(one: Subscription, now: Millis) -> NoteUnanswered:
    """Count a delivery that came back, and wait the longer, the more have come back in a row."""
    unanswered = one.unanswered + 1
    full_windows = one.unanswered // one.queue_requests
    pause = min(MAX_PAUSE, FIRST_PAUSE << min(full_windows, 30))
    until = later(now, seconds(pause))
    return NoteUnanswered(one.node, one.jid, unanswered, until=until)
