"""The effects of time and absence on items, and whether a dead-letter node accepts one that dies."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.model import changes as c
from pubqueue.model.decision import (
    Decision,
    Done,
    Expired,
    Overdue,
    Refusal,
    Refused,
    Request,
    in_words,
)
from pubqueue.model.entities import Affiliation, Jid, State, SubscriptionState
from pubqueue.model.notices import Notice, SubscriptionChanged, Unlocked
from pubqueue.model.several_subscriptions import apart, named
from pubqueue.model.transactions import Abort, Sweep
from pubqueue.rules import waits
from pubqueue.rules.access import is_meant
from pubqueue.rules.ahead import fail_first
from pubqueue.rules.filters import admits, indexed
from pubqueue.rules.give_back import Case, give_up, in_their_places
from pubqueue.rules.publication import MAX_BYTES, misfit
from pubqueue.rules.publish import turned_away
from pubqueue.rules.room import Growth, drops, full, status_item

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping

    from pubqueue.model.entities import Item, Millis, Node, NodeName, Principal, Subscription
    from pubqueue.model.transactions import Orphan
    from pubqueue.rules.room import Allowance


# The effects of time and absence on items: locks that expire, holders that leave, items that expire unclaimed.
#
# A failure is counted for the item (`failed`), never for the queue: the item is delivered to another
# subscriber at once, then after growing pauses, and is dead after `max_failures`. Dead items stay or
# move to the dead-letter node; none is dropped.

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


class Expire(Request, frozen=True, gc=False):
    """Apply the clock: end expired rows, except those set `aside`, or end `only` these rows.

    The reply names the schedules that are due, if there are any, unless `only` names rows.
    """

    aside: frozenset[Key] = frozenset()
    only: frozenset[Key] | None = None

    def takes(self, key: Key) -> bool:
        """Return whether the row has to be ended."""
        return key in self.only if self.only is not None else key not in self.aside


class ListOverdue(Request, frozen=True, gc=False):
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
    orphans: tuple[Orphan, ...] = ()
    """Items of nodes that were purged or deleted."""
    leases: tuple[Subscription, ...] = ()
    """Subscriptions whose lease has ended, or is due for its reminder."""
    unread: tuple[Key, ...] = ()
    """Expired rows that cannot be read."""
    schedules: tuple[str, ...] = ()
    """The names of those that are due."""
    truncated: tuple[NodeName, ...] = ()
    """The queues with items that are too old, and that have to report it."""
    service: Jid = Jid("")
    unanswered: tuple[Case, ...] = ()
    """Held items whose time is over, and that do not go to a worker then."""
    more_to_forget: bool = False
    """Whether there are more than FORGOTTEN outdated ids of finished work."""


def expire(request: Expire, facts: ExpireFacts) -> Decision:
    """End what has expired, and notify former holders (XEP-0254 4: send an unlock notification).

    The lifetime of a delayed item may have ended as well: then the item expires. Ids of finished
    work have no moment of their own, so while there are more to forget, another step follows; other
    requests have their batches between the steps.
    """
    ends = fail_first(facts.locks, facts.now, TIMED_OUT)
    ends += [_too_old(case, facts.now) for case in facts.lives]
    ends += [waits.end(case, facts.now) for case in facts.unanswered]
    cases = [*facts.locks, *facts.lives, *facts.unanswered]
    changes: list[c.Change] = [*in_their_places(ends, cases)]
    ended = {case.item.seq for case in facts.lives}
    changes += [status_item(name, facts.service, facts.now) for name in facts.truncated]
    changes += [_ripe(item) for item in facts.ripe if item.seq not in ended]
    changes += _silence(facts.holders, Counter(_lock_of(case.item) for case in facts.locks))
    if request.only is None:
        changes.append(c.Forget(facts.now, FORGOTTEN))
    changes += [Abort(app, version) for app, version in facts.overdue]
    if facts.sweepable is not None:
        changes.append(Sweep(facts.sweepable, SLICE, facts.orphans))
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


def _of_leases(row: Subscription, now: Millis) -> Iterator[tuple[c.Change, Notice]]:
    """Process the leases of a JID's subscriptions to a node."""
    for one in apart(row):
        if one.ends_next is not None and one.ends_next <= now:
            yield _of_lease(one, now)


def _of_lease(one: Subscription, now: Millis) -> tuple[c.Change, Notice]:
    """End a subscription whose lease is over, with a notification; or send the reminder (XEP-0060 12.19)."""
    if one.expire is not None and one.expire <= now:
        none = SubscriptionChanged(one.jid, one.node, SubscriptionState.NONE, one.subid)
        return c.EndSubscription(one.node, one.jid, named(one)), none
    terms = one.deliver, one.expire, None, one.temporary
    reminded = c.SetTerms(one.node, one.jid, *terms, named(one))
    return reminded, SubscriptionChanged(one.jid, one.node, one.state, one.subid, one.expire)


def _too_old(case: Case, now: Millis) -> c.Change:
    """End a lifetime: work is dead or dropped, an item of a plain node is deleted (XEP-0060 16.4.4, item_expire)."""
    if drops(case.node.config):
        return c.RemoveItem(case.item)
    return give_up(case, now, TOO_OLD, failed=case.item.failed)


def _ripe(item: Item) -> c.Change:
    return c.Wake(item) if item.state is State.HELD else c.Ripen(item)


def _lock_of(item: Item) -> tuple[NodeName, Jid | None]:
    return item.node, item.holder


def _silence(
    holders: Iterable[Subscription], timeouts: Mapping[tuple[NodeName, Jid | None], int]
) -> Iterator[c.Change]:
    """Count the timeouts; a subscriber with more than a window of them in a row gets no more deliveries.

    Otherwise a worker that died without an unavailable presence would delay items by a lock timeout
    each, without end. Any sign of life resets it.
    """
    for holder in holders:
        unanswered = holder.unanswered + timeouts[holder.node, holder.jid]
        silenced = unanswered > holder.queue_requests + MAX_TIMEOUTS
        yield c.NoteUnanswered(holder.node, holder.jid, unanswered, silenced=silenced)


# Whether a dead-letter node accepts an item that dies: the death is a publish by the owners of the item's node.
#
# A queue that names a dead-letter node has exactly the rights of its owners there.

NAMED: Final = 3
"""Up to how many queues a reason names."""


class Owner(Struct, frozen=True, gc=False):
    """An owner of the item's node, and its affiliation with the dead-letter node."""

    by: Principal
    affiliation: Affiliation = Affiliation.NONE
    subscribed: bool = False


class Heritage(Struct, frozen=True, gc=False):
    """A queue, the node that it names for its dead items, and the account that publishes them there.

    `trusted` are the accounts that may have created that node since the queue named it. `to` are the queues that get the
    item, if the node only passes items on to them, `guests` those of them that refuse none (`rules.feed`), which are the last.
    """

    queue: Node
    place: Node
    owners: tuple[Owner, ...]
    trusted: Container[Jid]
    to: tuple[Node, ...] = ()
    guests: frozenset[NodeName] = frozenset()


def passes_on(place: Node) -> bool:
    """Return whether a dead-letter node keeps no items itself, and passes a dead item on to all the queues that it feeds."""
    return not place.config.persists and not place.config.queueing


def admitting(queues: Iterable[Node], item: Item) -> tuple[Node, ...]:
    """Return the queues whose filters admit the item."""
    index = indexed(item.headers)
    return tuple([queue for queue in queues if admits(queue.config.filter, index)])


def refusal(heritage: Heritage, item: Item, size: int, space: str) -> str:
    """Return why the dead-letter node refuses the item, empty if it accepts it.

    `size` and `space` are the bytes and the namespace of its payload.
    """
    place = heritage.place
    if not is_meant(heritage.queue.config, "dead_letter_node", place, heritage.trusted):
        return f"{place.creator} recreated it, so it is not the node that was meant"
    if passes_on(place):
        obstacle = _not_passed_on(heritage, item, size, space)
        if obstacle:
            return obstacle
    obstacle = "this node has no owner"
    for owner in heritage.owners:
        to = owner.by, owner.affiliation, place
        no = turned_away(*to, item, size, space, subscribed=owner.subscribed)
        if no is None:
            return ""
        obstacle = f"{in_words(no)}, for {owner.by.account}"
    return obstacle


def _not_passed_on(heritage: Heritage, item: Item, size: int, space: str) -> str:
    """Return why one of the queues that the node feeds refuses the item, empty if all accept it: it goes to all of them, or to none."""
    if not heritage.to:
        return "it does not keep items"
    to = admitting(heritage.to, item)
    if not to:
        names = ", ".join([queue.name for queue in heritage.to[:NAMED]])
        return f"the filter of {names} leaves it out"
    if (len(to) - 1) * size > MAX_BYTES:
        return f"it feeds {len(to)} queues, which is too much for {size} bytes"
    for queue in to:
        if queue.config.publish_paused:
            return f"publishing to {queue.name} is paused"
        if (no := misfit(size, space, item.headers, queue.config)) is not None:
            return f"{queue.name}: {in_words(no)}"
    return ""


def without_guests(
    heritage: Heritage, item: Item, space: str, allowances: Mapping[NodeName, Allowance | None]
) -> tuple[Heritage, dict[NodeName, str]]:
    """Return the queues that get the item without those of guests that refuse it, and why these do."""
    stays: list[Node] = []
    left_out: dict[NodeName, str] = {}
    more = Growth(1, item.size)
    for queue in admitting(heritage.to, item):
        no = None
        if queue.name in heritage.guests:
            allowance = allowances[queue.name]
            if len(stays) * item.size > MAX_BYTES:
                no = Refused(Refusal.PAYLOAD_TOO_BIG, "too many queues get it")
            elif queue.config.publish_paused:
                no = Refused(Refusal.PUBLISH_PAUSED)
            no = no or misfit(item.size, space, item.headers, queue.config) or full(queue, more)
            if no is None and allowance is not None:
                no = allowance.refuses(more.items, more.bytes)
        if no is None:
            stays.append(queue)
        else:
            left_out[queue.name] = in_words(no)
    return replace(heritage, to=tuple(stays)), left_out
