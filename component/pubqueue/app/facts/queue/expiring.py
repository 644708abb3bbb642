"""Facts for time, presence and bounces: what has expired, and the items of JIDs that come or go."""

from __future__ import annotations

from itertools import starmap
from typing import TYPE_CHECKING, Final

from pubqueue.app.facts.queue.dying import places
from pubqueue.app.store.item_listings import HeldBy, Locks, LocksFromLast
from pubqueue.app.store.listings import DueSchedules, Forgettable
from pubqueue.app.store.rows import PING_ANSWERS, Due
from pubqueue.app.store.version_listings import Sweepable
from pubqueue.app.working_set.sequences import delivered_mark
from pubqueue.model.after import exhausted
from pubqueue.model.entities import Jid, Level, Millis, State, account_of
from pubqueue.rules.deliveries import asks, level_of
from pubqueue.rules.expire import (
    FORGOTTEN,
    ExpireFacts,
    OverdueFacts,
    of_item,
    of_lease,
    of_version,
)
from pubqueue.rules.give_back import Case
from pubqueue.rules.presence import (
    AnsweredFacts,
    ArriveFacts,
    BounceFacts,
    FreeLeftFacts,
    LeaveFacts,
    ReachFacts,
)
from pubqueue.rules.room import STATUS_ID, truncates
from pubqueue.rules.unlock import (
    MAX_BYTES,
    RESEND_LOOKED_AT,
    RecoverFacts,
    ResendFacts,
    is_undelivered,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pubqueue.app.facts.context import Context
    from pubqueue.app.working_set.working_set import WorkingSet
    from pubqueue.model.entities import Item, Node, Subscription
    from pubqueue.rules.expire import Expire, ListOverdue
    from pubqueue.rules.presence import (
        AnsweredElsewhere,
        Arrive,
        Bounce,
        FreeLeft,
        Leave,
        ReachChanged,
    )
    from pubqueue.rules.unlock import Recover, Resend

AT_ONCE: Final = 500
"""Up to how many rows of a kind one batch ends because of the clock; the others follow in the next."""

SCHEDULES: Final = 100
"""Schedules that have their turn one after the other before others are searched."""


def for_recovery(context: Context, request: Recover) -> RecoverFacts:
    """Return the next of all locks, the last to end first."""
    rows = context.rows
    items = rows.page(LocksFromLast(), request.before, AT_ONCE)
    paired = tuple((item, node) for item in items if (node := rows.node(item.node)))
    last = items[-1] if len(items) == AT_ONCE else None
    rest = None if last is None or last.deadline is None else (last.deadline, last.seq)
    return RecoverFacts(context.now, paired, rest)


def for_resend(context: Context, request: Resend) -> ResendFacts:
    """Return a slice of the locks, and the payloads of those whose deliveries may never have left."""
    rows, now = context.rows, context.now
    if rows.gathering:
        return ResendFacts(now, (0, 0), (), {})
    span = request.span or (
        rows.next_number(delivered_mark(request.instance)),
        rows.next_number("token"),
    )
    if span[0] >= span[1]:
        return ResendFacts(now, span, (), {})
    locks = rows.page(Locks(), request.after, RESEND_LOOKED_AT)
    payloads: dict[int, bytes] = {}
    subids: dict[int, str] = {}
    levels: dict[int, Level] = {}
    size = 0
    for at, item in enumerate(locks):
        if is_undelivered(item, span, now):
            payloads[item.seq] = rows.payload(item)
            size += len(payloads[item.seq])
            its = None if item.holder is None else rows.subscription(item.node, item.holder)
            node = rows.node(item.node)
            if its is not None and node is not None:
                subids[item.seq] = its.subid
                levels[item.seq] = level_of(node.config, its, rows.is_able)
        if size > MAX_BYTES:
            del locks[at + 1 :]
    return ResendFacts(now, span, tuple(locks), payloads, subids, levels)


def for_list(context: Context, _request: ListOverdue) -> OverdueFacts:
    """Return the keys of expired rows."""
    due = context.rows.due(context.now, AT_ONCE)
    items = [*due.locks, *due.lives, *due.delayed]
    keys = [*map(of_item, items), *starmap(of_version, due.versions), *map(of_lease, due.leases)]
    return OverdueFacts(tuple(dict.fromkeys(keys)))


def _taken(request: Expire, due: Due) -> Due:
    """Return those that have to be ended."""
    if request.only is None and not request.aside:
        return due
    return Due(
        locks=[item for item in due.locks if request.takes(of_item(item))],
        lives=[item for item in due.lives if request.takes(of_item(item))],
        delayed=[item for item in due.delayed if request.takes(of_item(item))],
        versions=[one for one in due.versions if request.takes(of_version(*one))],
        leases=[row for row in due.leases if request.takes(of_lease(row))],
        unread=[key for key in due.unread if request.only is None and key not in request.aside],
    )


def for_expiry(context: Context, request: Expire) -> ExpireFacts:
    """Return the expired rows."""
    rows, now = context.rows, context.now
    due = _taken(request, rows.due(now, AT_ONCE + len(request.aside)))
    cases = _cases(context, [*due.locks, *due.lives])
    for item in due.delayed:
        rows.node(item.node)
    dropped = dict.fromkeys(
        case.node.name for case in cases[len(due.locks) :] if truncates(case.node.config)
    )
    truncated = tuple([name for name in dropped if rows.item(name, STATUS_ID) is None])
    held = dict.fromkeys((item.node, item.holder) for item in due.locks if item.holder is not None)
    holders = [rows.subscription(*lock) for lock in held]
    leases = [rows.subscription(one.node, one.jid) for one in due.leases]
    kept_since = Millis(now - context.terms.limits.kept_for)
    whole = request.only is None
    old = rows.page(Forgettable(now), None, FORGOTTEN + 1) if whole else []
    return ExpireFacts(
        now=now,
        ripe=tuple(due.delayed),
        locks=cases[: len(due.locks)],
        lives=cases[len(due.locks) :],
        holders=tuple(holder for holder in holders if holder is not None),
        overdue=tuple(due.versions),
        sweepable=kept_since if whole and True in rows.page(Sweepable(kept_since)) else None,
        leases=tuple(one for one in leases if one is not None),
        unread=tuple(dict.fromkeys(due.unread)),
        more_to_forget=sum(old) > FORGOTTEN,
        truncated=truncated,
        service=context.service.account,
        schedules=() if request.only else tuple(rows.page(DueSchedules(now), None, SCHEDULES)),
    )


def for_arrive(context: Context, request: Arrive) -> ArriveFacts:
    """Return the subscriptions of a JID that has come, under its full JID and its bare one."""
    rows, account = context.rows, account_of(request.jid)
    rows.cache.passers_by.append((request.jid, None))
    mine = _exactly(rows, request.jid)
    paired = [(one, rows.node(one.node)) for one in mine]
    wanted = any(node is not None and asks(node.config, one) for one, node in paired)
    known = (
        rows.is_somebody(account),
        rows.is_somebody(request.jid),
    )  # both: they are loaded together
    somebody = any(known)
    here = tuple(rows.resources(account)) if somebody or mine else ()
    return ArriveFacts(tuple(mine), here, is_somebody=somebody, wants_features=wanted)


def for_reach(context: Context, request: ReachChanged) -> ReachFacts:
    """Return the subscriptions of exactly this address."""
    return ReachFacts(tuple(context.rows.subscriptions_of(request.jid)))


def for_leave(context: Context, request: Leave) -> LeaveFacts:
    """Return the items of the leaver, under its full JID and under its bare one, and the other resources of its account."""
    rows, account = context.rows, account_of(request.jid)
    rows.cache.passers_by.append((request.jid, None))
    jids = tuple(dict.fromkeys((request.jid, account)))
    here = rows.resources(account)
    is_here = request.jid in here
    paired = [(one, rows.node(one.node)) for one in _exactly(rows, request.jid)]
    held = {jid: rows.held_by(jid) for jid in jids}
    more = tuple(jid for jid, (_, goes_on) in held.items() if goes_on)
    answer = None if request.unanswered is None else rows.row(PING_ANSWERS, request.jid)
    return LeaveFacts(
        now=context.now,
        held=_cases(context, [item for items, _ in held.values() for item in items]),
        subscriptions=tuple((one, node) for one, node in paired if node is not None),
        is_here=is_here,
        is_last=is_here and len(here) == 1,
        more=more,
        unused=rows.unused_token() if more else 0,
        answered=None if answer is None else answer.at,
    )


def for_answered(context: Context, request: AnsweredElsewhere) -> AnsweredFacts:
    """Return whether the JID holds an item."""
    rows = context.rows
    rows.row(PING_ANSWERS, request.jid)  # changed rows have to be loaded
    held, _ = rows.held_by(request.jid)
    return AnsweredFacts(context.now, bool(held))


def for_free_left(context: Context, request: FreeLeft) -> FreeLeftFacts:
    """Return the next items that a former holder has left."""
    held = context.rows.page(HeldBy(request.holders[0]), request.after, AT_ONCE)
    last = held[-1].seq if len(held) == AT_ONCE else None
    return FreeLeftFacts(context.now, _cases(context, held), last)


def _exactly(rows: WorkingSet, jid: Jid) -> list[Subscription]:
    """Return the subscriptions of the full JID and of the bare one, not those of other resources."""
    jids = dict.fromkeys((jid, account_of(jid)))
    mine = [one for jid in jids for one in rows.subscriptions_of(jid)]
    return sorted(mine, key=lambda one: (one.node, one.jid))


def for_bounce(context: Context, request: Bounce) -> BounceFacts:
    """Return the item of a delivery that bounced, if that very lock is still on it."""
    rows = context.rows
    item = rows.item_at(request.seq)
    node = None if item is None else rows.node(item.node)
    if item is None or node is None:
        return BounceFacts(context.now, None, None)
    rows.cache.passers_by.append((request.to, item.node))
    locked = item.state is State.LOCKED and item.token == request.token
    return BounceFacts(
        now=context.now,
        case=Case(item, node) if locked else None,
        subscription=rows.subscription(item.node, request.to),
        active_since=rows.active_since(request.to) if request.gone else 0,
    )


def _cases(context: Context, items: Iterable[Item]) -> tuple[Case, ...]:
    """Pair each item with its node and, if it dies, its destination."""
    rows = context.rows
    paired = [(item, node) for item in items if (node := rows.node(item.node))]
    dying = [(item, node) if _dies(item, node) else None for item, node in paired]
    found = zip(paired, places(context, dying), strict=True)
    return tuple([Case(item, node, place) for (item, node), place in found])


def _dies(item: Item, node: Node) -> bool:
    """Return whether the item dies: a lock has failed for the last time allowed, or a lifetime in a queue has ended."""
    return exhausted(item, node.config) if item.holder is not None else node.config.queueing
