"""The effects of time and absence on items: locks that expire, holders that leave, items that expire unclaimed.

A failure is counted for the item (`failed`), never for the queue: the item is delivered to another
subscriber at once, then after growing pauses, and is dead after `max_failures`. Dead items stay or
move to the dead-letter node; none is dropped.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pubqueue.core.changes import Change, Forget, RemoveItem, Ripen
from pubqueue.core.decision import Decision, Done, Expired, Overdue
from pubqueue.core.model import Jid, SubscriptionState
from pubqueue.core.multi_subscription import apart, named
from pubqueue.core.nodes.subscriptions.changes import EndSubscription, NoteUnanswered, SetTerms
from pubqueue.core.notices import Notice, SubscriptionChanged, Unlocked
from pubqueue.core.publishing.truncation import drops, status_item
from pubqueue.core.queue.give_back import Case, fail, give_up, in_their_places
from pubqueue.core.transactions.model import Abort, Sweep

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pubqueue.core.model import Item, Millis, NodeName, Subscription


MAX_TIMEOUTS: Final = 2
"""Locks that may time out in a row, beyond a window full of them, before a silent subscriber gets nothing more."""


TIMED_OUT: Final = "the lock timed out"
TOO_OLD: Final = "the time to live ended"

SLICE: Final = 4_000
"""Up to how many staged items one step sweeps, so that a batch stays short."""


FORGOTTEN: Final = 1_000
"""Up to how many ids of finished work one step forgets; the next step follows at once while there are more."""


Key = tuple[str, ...]
"""The key of an expired row: its kind, and its names."""


class Expire(Struct, frozen=True, gc=False):
    """Apply the clock: end expired rows, except those set `aside`, or end `only` these rows.

    The reply names the schedules that are due, if there are any, unless `only` names rows.
    """

    aside: frozenset[Key] = frozenset()
    only: frozenset[Key] | None = None

    def takes(self, key: Key) -> bool:
        """Return whether the row has to be ended."""
        return key in self.only if self.only is not None else key not in self.aside


class ListOverdue(Struct, frozen=True, gc=False):
    """Request expired rows, as many as one batch ends."""


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
    """The subscriptions under which the locks were given, if they still exist."""
    overdue: tuple[tuple[str, int], ...] = ()
    """Open versions of transactions that were not committed in time."""
    sweepable: Millis | None = None
    """Until when records of transactions are too old, if there are any to sweep."""
    leases: tuple[Subscription, ...] = ()
    """Subscriptions whose lease has ended, or is due for its reminder."""
    unread: tuple[Key, ...] = ()
    """Expired rows that cannot be read."""
    schedules: tuple[str, ...] = ()
    """The names of those that are due."""
    truncated: tuple[NodeName, ...] = ()
    """The queues with items that are too old, and that have to report it."""
    service: Jid = Jid("")
    more_to_forget: bool = False
    """Whether there are more than FORGOTTEN outdated ids of finished work."""


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
    changes += [status_item(name, facts.service, facts.now) for name in facts.truncated]
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
    """Process the leases of a JID's subscriptions to a node."""
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
    """End a lifetime: work is dead or dropped, an item of a plain node is deleted (XEP-0060 16.4.4, item_expire)."""
    if drops(case.node.config):
        return RemoveItem(case.item)
    return give_up(case, now, TOO_OLD, failed=case.item.failed)


def _lock_of(item: Item) -> tuple[NodeName, Jid | None]:
    return item.node, item.holder


def _silence(
    holders: Iterable[Subscription], timeouts: Mapping[tuple[NodeName, Jid | None], int]
) -> Iterator[Change]:
    """Count the timeouts; a subscriber with more than a window of them in a row gets no more deliveries.

    Otherwise a worker that died without an unavailable presence would delay items by a lock timeout
    each, without end. Any sign of life resets it.
    """
    for holder in holders:
        unanswered = holder.unanswered + timeouts[holder.node, holder.jid]
        silenced = unanswered > holder.queue_requests + MAX_TIMEOUTS
        yield NoteUnanswered(holder.node, holder.jid, unanswered, silenced=silenced)
