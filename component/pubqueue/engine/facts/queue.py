"""Facts for the life of an item after its publish: takes, deliveries, settles, expiry, death, seeks."""

from __future__ import annotations

from itertools import starmap
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from pubqueue.engine import listings
from pubqueue.engine.facts.managing import for_node, owners_to_notify
from pubqueue.engine.facts.publishing import existing, fed_by, oldest, subscribers
from pubqueue.engine.rows import ANSWERED, FINISHED, PING_ANSWERS, SECRETS, SEEKS, SETTLED, Due
from pubqueue.engine.writes import delivered_mark
from pubqueue.model.after import exhausted
from pubqueue.model.changes import NoteLeftOut
from pubqueue.model.entities import (
    Affiliation,
    Draft,
    Jid,
    Level,
    Millis,
    NodeName,
    Principal,
    PublishModel,
    State,
    account_of,
)
from pubqueue.model.sums import DAMAGED, is_damaged
from pubqueue.model.transactions import SWEPT_BYTES
from pubqueue.rules import asks as questions
from pubqueue.rules import expire, presence, seek, waits
from pubqueue.rules.damage import ROOM, DamageFacts, SumFacts
from pubqueue.rules.damage import SLICE as SUMS
from pubqueue.rules.dead_letters import CANCEL_SLICE, DiscardFacts
from pubqueue.rules.deliveries import (
    DeliveryAnswerFacts,
    FeatureFacts,
    GiveUpFacts,
    UnansweredFacts,
    asks,
    has_answer,
    is_held,
    level_of,
)
from pubqueue.rules.feed import elsewhere
from pubqueue.rules.give_back import Case, Copy, DeadLetterPlace, Onward, room_for
from pubqueue.rules.inspect import objection
from pubqueue.rules.joins import Met
from pubqueue.rules.nodes import Purge
from pubqueue.rules.publication import Known
from pubqueue.rules.room import STATUS_ID, slice_of, truncates
from pubqueue.rules.seek import (
    SEEK_LOOKED_AT,
    DropDoneFacts,
    ResumeSeeksFacts,
    SeekFacts,
    SeekItemsFacts,
)
from pubqueue.rules.settle import HeldFacts, Outcome, Settle, SettleFacts, Verb, holds, is_late
from pubqueue.rules.settle_each import singly
from pubqueue.rules.signal_links import MakeSignalLinkFacts
from pubqueue.rules.take import TakeFacts
from pubqueue.rules.unlock import (
    MAX_BYTES,
    RESEND_LOOKED_AT,
    UNNOTICED,
    Among,
    RecoverFacts,
    ResendFacts,
    is_undelivered,
)
from pubqueue.rules.waits import HoldFacts, Signal, SignalFacts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pubqueue.engine.context import Context
    from pubqueue.engine.listings import Listing
    from pubqueue.engine.working_set import WorkingSet
    from pubqueue.model.entities import Item, ItemId, Node, Subscription
    from pubqueue.model.joins import Tally
    from pubqueue.model.transactions import Orphan
    from pubqueue.rules.damage import ComputeSums, EndDamaged
    from pubqueue.rules.dead_letters import Cancel, Discard
    from pubqueue.rules.deliveries import (
        AskUnanswered,
        GiveUpUnanswered,
        Lock,
        NoteDeliveryAnswer,
        NoteFeatures,
    )
    from pubqueue.rules.joins import Close
    from pubqueue.rules.seek import DropDone, ResumeSeeks, Seek, SeekItems
    from pubqueue.rules.settle import ReadHeld
    from pubqueue.rules.settle_each import SettleEach
    from pubqueue.rules.signal_links import MakeSignalLink
    from pubqueue.rules.take import Take
    from pubqueue.rules.unlock import Recover, Resend, Touch
    from pubqueue.rules.waits import Hold

    Dying = tuple[Item, Node] | None


# Facts for time, presence and bounces: what has expired, and the items of JIDs that come or go.

AT_ONCE: Final = 500
"""Up to how many rows of a kind one batch ends because of the clock; the others follow in the next."""

EVER: Final = 1 << 62

SCHEDULES: Final = 100
"""Schedules that have their turn one after the other before others are searched."""


def for_recovery(context: Context, request: Recover) -> RecoverFacts:
    """Return the next of all locks, of the delayed items or of the newest, the last first.

    What is due is no longer delayed for long, and what is older than the newest was published before the clock was ahead.
    """
    rows, now = context.rows, context.now
    which, moment_of, ends = _AMONG[request.among]
    items = rows.page(which, request.before, AT_ONCE)
    paired = tuple((item, node) for item in items if (node := rows.node(item.node)))
    moment = moment_of(items) if len(items) == AT_ONCE else None
    if moment is None or moment <= now + ends:
        return RecoverFacts(now, paired)
    return RecoverFacts(now, paired, (moment, items[-1].seq))


_AMONG: Final[dict[Among, tuple[Listing[Item], Callable[[list[Item]], Millis | None], int]]] = {
    Among.LOCKS: (listings.LocksFromLast(), lambda items: items[-1].deadline, -EVER),
    Among.DELAYED: (listings.DelayedFromLast(), lambda items: items[-1].due, 0),
    Among.NEWEST: (
        listings.ItemsFromLast(),
        lambda items: max(item.published for item in items),
        -UNNOTICED,
    ),
}
"""Their listing, the moment of a slice, and how long after now that has to be if others are to follow."""


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
    locks = rows.page(listings.Locks(), request.after, RESEND_LOOKED_AT)
    payloads: dict[int, bytes] = {}
    subids: dict[int, str] = {}
    levels: dict[int, Level] = {}
    size = 0
    for at, item in enumerate(locks):
        if is_undelivered(item, span, now) and not rows.is_damaged(item):
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


def for_list(context: Context, _request: expire.ListOverdue) -> expire.OverdueFacts:
    """Return the keys of expired rows."""
    due = context.rows.due(context.now, AT_ONCE)
    items = [*due.locks, *due.lives, *due.delayed]
    keys = [
        *map(expire.of_item, items),
        *starmap(expire.of_version, due.versions),
        *map(expire.of_lease, due.leases),
    ]
    return expire.OverdueFacts(tuple(dict.fromkeys(keys)))


def _taken(request: expire.Expire, due: Due) -> Due:
    """Return those that have to be ended."""
    if request.only is None and not request.aside:
        return due
    return Due(
        locks=[item for item in due.locks if request.takes(expire.of_item(item))],
        lives=[item for item in due.lives if request.takes(expire.of_item(item))],
        delayed=[item for item in due.delayed if request.takes(expire.of_item(item))],
        versions=[one for one in due.versions if request.takes(expire.of_version(*one))],
        leases=[row for row in due.leases if request.takes(expire.of_lease(row))],
        unread=[key for key in due.unread if request.only is None and key not in request.aside],
    )


def _in_a_slice(due: Due) -> Due:
    """Return those whose payloads are freed in one step; what is left is due in the next one."""
    lives = [*slice_of(due.lives)]
    room = max(0, SWEPT_BYTES - sum(item.size for item in lives))
    over = [item for item in due.delayed if waits.ends(item)]
    ends = {item.seq for item in (slice_of(over, room) if room or not lives else ())}
    delayed = [item for item in due.delayed if item.seq in ends or not waits.ends(item)]
    return replace(due, lives=lives, delayed=delayed)


def for_expiry(context: Context, request: expire.Expire) -> expire.ExpireFacts:
    """Return the expired rows."""
    rows, now = context.rows, context.now
    due = _in_a_slice(_taken(request, rows.due(now, AT_ONCE + len(request.aside))))
    too_old = {item.seq for item in due.lives}
    ended = [item for item in due.delayed if waits.ends(item) and item.seq not in too_old]
    cases = _cases(context, [*due.locks, *due.lives])
    unanswered = _cases(context, ended)
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
    old = rows.page(listings.Forgettable(now), None, expire.FORGOTTEN + 1) if whole else []
    sweeps = whole and True in rows.page(listings.Sweepable(kept_since))
    return expire.ExpireFacts(
        now=now,
        ripe=tuple([item for item in due.delayed if not waits.ends(item)]),
        unanswered=unanswered,
        locks=cases[: len(due.locks)],
        lives=cases[len(due.locks) :],
        holders=tuple(holder for holder in holders if holder is not None),
        overdue=tuple(due.versions),
        sweepable=kept_since if sweeps else None,
        orphans=_orphans(rows) if sweeps else (),
        leases=tuple(one for one in leases if one is not None),
        unread=tuple(dict.fromkeys(due.unread)),
        more_to_forget=sum(old) > expire.FORGOTTEN,
        truncated=truncated,
        service=context.service.account,
        schedules=()
        if request.only
        else tuple(rows.page(listings.DueSchedules(now), None, SCHEDULES)),
    )


def _orphans(rows: WorkingSet) -> tuple[Orphan, ...]:
    """Return items that belong to no node any more: with few questions among them, because each of these is answered."""
    found = rows.page(listings.Orphans(), None, expire.SLICE)
    asked = [at for at, orphan in enumerate(found, 1) if orphan.headers]
    most = questions.SLICE
    return tuple(found[: asked[most - 1]] if len(asked) >= most else found)


def for_arrive(context: Context, request: presence.Arrive) -> presence.ArriveFacts:
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
    return presence.ArriveFacts(tuple(mine), here, is_somebody=somebody, wants_features=wanted)


def for_reach(context: Context, request: presence.ReachChanged) -> presence.ReachFacts:
    """Return the subscriptions of exactly this address."""
    return presence.ReachFacts(tuple(context.rows.subscriptions_of(request.jid)))


def for_leave(context: Context, request: presence.Leave) -> presence.LeaveFacts:
    """Return the items of the leaver, under its full JID and under its bare one, and the other resources of its account."""
    rows, account = context.rows, account_of(request.jid)
    rows.cache.passers_by.append((request.jid, None))
    jids = tuple(dict.fromkeys((request.jid, account)))
    present = rows.present(account)
    paired = [(one, rows.node(one.node)) for one in _exactly(rows, request.jid)]
    held = {jid: rows.held_by(jid) for jid in jids}
    more = tuple(jid for jid, (_, goes_on) in held.items() if goes_on)
    answer = None if request.unanswered is None else rows.row(PING_ANSWERS, request.jid)
    return presence.LeaveFacts(
        now=context.now,
        held=_cases(context, [item for items, _ in held.values() for item in items]),
        subscriptions=tuple((one, node) for one, node in paired if node is not None),
        is_known=request.jid in rows.resources(account),
        present=present,
        more=more,
        unused=rows.unused_token() if more else 0,
        answered=None if answer is None else answer.at,
        seen=None if request.at is None else rows.active_at(request.jid),
    )


def for_answered(context: Context, request: presence.AnsweredElsewhere) -> presence.AnsweredFacts:
    """Return whether the JID holds an item."""
    rows = context.rows
    rows.row(PING_ANSWERS, request.jid)  # changed rows have to be loaded
    held, _ = rows.held_by(request.jid)
    return presence.AnsweredFacts(context.now, bool(held))


def for_free_left(context: Context, request: presence.FreeLeft) -> presence.FreeLeftFacts:
    """Return the next items that a former holder has left."""
    held = context.rows.page(listings.HeldBy(request.holders[0]), request.after, AT_ONCE)
    last = held[-1].seq if len(held) == AT_ONCE else None
    return presence.FreeLeftFacts(context.now, _cases(context, held), last)


def for_free_connections(
    context: Context, request: presence.FreeConnections
) -> presence.FreeConnectionsFacts:
    """Return what the first of the connections have, up to a slice of items; one that holds more comes alone."""
    rows, jids = context.rows, request.jids
    held = [rows.held_by(jid) for jid in jids]
    mine = [rows.subscriptions_of(jid) for jid in jids]
    known = [jid for jid in jids if jid in rows.resources(account_of(jid))]
    if rows.lacking:
        return presence.FreeConnectionsFacts(context.now, (), ())
    rows.cache.passers_by += [(jid, None) for jid in jids]
    items, count = _slice_of(context, jids, held)
    gone = set(jids[:count])
    subscriptions = [one for each in mine[:count] for one in each if rows.node(one.node)]
    return presence.FreeConnectionsFacts(
        context.now,
        held=_cases(context, items),
        subscriptions=tuple(subscriptions),
        known=tuple([jid for jid in known if jid in gone]),
        left=jids if count == 1 and len(items) == AT_ONCE else jids[count:],
    )


def _slice_of(
    context: Context, jids: Sequence[Jid], held: Sequence[tuple[list[Item], bool]]
) -> tuple[list[Item], int]:
    """Return the items of the first holders, and how many holders these are: at least one."""
    if held[0][1]:
        return context.rows.page(listings.HeldBy(jids[0]), 0, AT_ONCE), 1
    found: list[Item] = []
    for at, (items, goes_on) in enumerate(held):
        if goes_on or len(found) + len(items) > AT_ONCE:
            return found, at
        found += items
    return found, len(held)


def _exactly(rows: WorkingSet, jid: Jid) -> list[Subscription]:
    """Return the subscriptions of the full JID and of the bare one, not those of other resources."""
    jids = dict.fromkeys((jid, account_of(jid)))
    mine = [one for jid in jids for one in rows.subscriptions_of(jid)]
    return sorted(mine, key=lambda one: (one.node, one.jid))


def for_bounce(context: Context, request: presence.Bounce) -> presence.BounceFacts:
    """Return the item of a delivery that bounced, if that very lock is still on it."""
    rows = context.rows
    item = rows.item_at(request.seq)
    node = None if item is None else rows.node(item.node)
    if item is None or node is None:
        return presence.BounceFacts(context.now, None, None)
    rows.cache.passers_by.append((request.to, item.node))
    locked = item.state is State.LOCKED and item.token == request.token
    return presence.BounceFacts(
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


# Facts for what is damaged, and for rows without a checksum.


def for_damaged(context: Context, request: EndDamaged) -> DamageFacts:
    """Return those of the items that are damaged; their content is compared again."""
    rows = context.rows
    found = []
    for seq in request.seqs:
        item = rows.item_at(seq)
        node = None if item is None else rows.node(item.node)
        if item is None or node is None or is_damaged(item):  # it is dead already
            continue
        if rows.is_damaged(item):
            found.append((item, node))
    return DamageFacts(context.now, tuple(found))


def for_sums(context: Context, _request: ComputeSums) -> SumFacts:
    """Return the next rows without a checksum: items first."""
    page = context.rows.page
    if items := page(listings.WithoutSum(ROOM), None, SUMS):
        return SumFacts(tuple(items))
    for table in listings.SUMMED:
        if rows := page(listings.RowSums(table, missing=True), None, SUMS):
            return SumFacts((), tuple([(table, row.place, row.due) for row in rows]))
    return SumFacts(())


# Facts for deliveries that are answered, or are not.


def for_unanswered(context: Context, request: AskUnanswered) -> UnansweredFacts:
    """Return the item, its payload if it is still locked so, and the answer that another instance has noted."""
    rows = context.rows
    item, answered = rows.item_at(request.seq), rows.row(ANSWERED, request.token)
    if item is None or not is_held(item, request.by.jid, request.token):
        return UnansweredFacts(item, answered=answered)
    if not request.received and rows.is_damaged(item):
        return UnansweredFacts(None)
    payload = b"" if request.received else rows.payload(item)
    return UnansweredFacts(item, payload, answered)


def for_delivery_answer(context: Context, request: NoteDeliveryAnswer) -> DeliveryAnswerFacts:
    """Return the item, what is known of the answer, and the holder's subscription."""
    rows = context.rows
    item, answered = rows.item_at(request.seq), rows.row(ANSWERED, request.token)
    if item is None or not is_held(item, request.jid, request.token):
        return DeliveryAnswerFacts(context.now, item, answered)
    one = rows.subscription(item.node, request.jid)
    return DeliveryAnswerFacts(context.now, item, answered, "" if one is None else one.subid)


def for_giving_up(context: Context, request: GiveUpUnanswered) -> GiveUpFacts:
    """Return what is still locked so without an answer, and the subscriptions under which it was delivered."""
    rows, to = context.rows, request.to
    found = [_held(rows, to, lock) for lock in request.locks]
    if found and found[0] is None:
        return GiveUpFacts(context.now, ())
    held = tuple(each for each in found if each is not None)
    nodes = dict.fromkeys(item.node for item, _ in held)
    subscriptions = [rows.subscription(node, to) for node in nodes]
    return GiveUpFacts(context.now, held, tuple(one for one in subscriptions if one is not None))


def _held(rows: WorkingSet, to: Jid, lock: Lock) -> tuple[Item, Node] | None:
    item, answered = rows.item_at(lock.seq), rows.row(ANSWERED, lock.token)
    node = None if item is None else rows.node(item.node)
    if item is None or node is None or item.deadline != lock.deadline:
        return None
    if not is_held(item, to, lock.token):
        return None
    return None if has_answer(answered, received=lock.received) else (item, node)


def for_features(context: Context, request: NoteFeatures) -> FeatureFacts:
    """Return whether the JID is here, and what is known of its client."""
    rows = context.rows
    rows.cache.passers_by.append((request.jid, None))
    is_here = request.jid in rows.resources(account_of(request.jid))
    return FeatureFacts(is_here, rows.is_able(request.jid))


# Facts for items that die: the dead-letter nodes of their nodes, and the account that publishes there.

MAX_OWNERS: Final = 100
"""Up to how many owners of a queue, the first by name, are checked for the right to publish to its dead-letter node."""


def places(context: Context, dying: Iterable[Dying]) -> tuple[DeadLetterPlace | None, ...]:
    """Return the place for each item that dies with its node; None if there is none, or an item does not die."""
    known: dict[NodeName, expire.Heritage | None] = {}
    return tuple([None if one is None else _place(context, *one, known) for one in dying])


def _place(
    context: Context, item: Item, node: Node, known: dict[NodeName, expire.Heritage | None]
) -> DeadLetterPlace | None:
    name = NodeName(node.config.dead_letter_node)
    if not name:
        return None
    if node.name not in known:
        known[node.name] = _heritage(context, node, name)
    heritage, rows = known[node.name], context.rows
    if heritage is None:
        return DeadLetterPlace(name, exists=False, taken=False)
    left_out: tuple[NoteLeftOut, ...] = ()
    if heritage.guests:
        payload = rows.payload(item)
        space = "" if rows.lacking else context.payloads.space_of(payload)
        mine = {q.name: context.allowance(q.creator) for q in heritage.to}
        heritage, why = expire.without_guests(heritage, item, space, mine)
        left_out = tuple([NoteLeftOut(name, 1, context.now, no) for name, no in why.items()])
    queues = expire.admitting(heritage.to, item)
    may = queues or (heritage.place,)
    free = [place for place in may if rows.item(place.name, item.id) is None]
    to, taken = free[0] if free else may[0], not free
    payload = b"" if taken else rows.payload(item)
    if item.seq in rows.cache.damaged:
        return DeadLetterPlace(name, True, False, refuses=DAMAGED)  # noqa: FBT003
    no, onward = "", None
    if not taken and not rows.lacking:
        has_type = any(one.config.type for one in (heritage.place, *queues))
        space = context.payloads.space_of(payload) if has_type else ""
        no = expire.refusal(heritage, item, len(payload), space)
    if queues and not taken and not no:
        onward = _onward(context, item, (to, queues, heritage.guests), payload)
        onward = replace(onward, left_out=left_out)
    room, left = room_for(to, node, context.allowance(to.creator))
    return DeadLetterPlace(to.name, True, taken, room, no, left, onward)  # noqa: FBT003


def _onward(
    context: Context,
    item: Item,
    to: tuple[Node, tuple[Node, ...], frozenset[NodeName]],
    payload: bytes,
) -> Onward:
    """Return the first queue, and the others with the ids under which they accept the item: none if they have it already."""
    rows = context.rows
    first, queues, guests = to
    copies: list[Copy] = []
    draft = Draft(item.id, payload)
    for queue in queues:
        allowance = None if queue is first else context.allowance(queue.creator)
        if queue is first or (name := _free_id(context, queue, draft)) is None:
            continue
        copies.append(Copy(queue, name, allowance, queue.name in guests))
    return Onward(first, payload if copies and not rows.lacking else b"", tuple(copies))


def _free_id(context: Context, queue: Node, draft: Draft) -> ItemId | None:
    """Return the id of a copy in a queue; None if this very item exists there, or was done, under its own id or the other."""
    known, _ = existing(context, queue, draft)
    if known is Known.NEW:
        return draft.id
    if known is not Known.OTHER:
        return None
    other = elsewhere(draft.id, context.payloads.fingerprint(draft.payload))
    return other if context.rows.item(queue.name, other) is None else None


def _heritage(context: Context, node: Node, name: NodeName) -> expire.Heritage | None:
    """Return the dead-letter node and the account that may publish there; the operator if the queue has no owner."""
    rows = context.rows
    place = rows.node(name)
    if place is None:
        return None
    found = rows.page(listings.AffiliationsOf(node.name, (Affiliation.OWNER,)), None, MAX_OWNERS)
    accounts = [row.account for row in found]
    owners = tuple([_owner(context, account, place) for account in accounts])
    trusted = {*accounts, *context.terms.operators, context.service.account}
    fed = fed_by(context, place) if expire.passes_on(place) else []
    guests = [queue for queue, is_guest in fed if is_guest]
    to = (*(queue for queue, is_guest in fed if not is_guest), *guests)
    names = frozenset([queue.name for queue in guests])
    return expire.Heritage(
        node, place, owners or (expire.Owner(context.service),), trusted, to, names
    )


def _owner(context: Context, account: Jid, place: Node) -> expire.Owner:
    rows, by = context.rows, Principal(account, admin=account in context.terms.operators)
    listens = place.config.publish_model is PublishModel.SUBSCRIBERS
    subscribed = listens and rows.subscribed(place.name, account)
    return expire.Owner(by, rows.affiliation(place.name, account), subscribed)


def for_ended(context: Context, ended: Iterable[questions.Ended]) -> list[questions.EndedFacts]:
    """Return for each question its queue, the node for its reply, and the item in that node with the id of the reply."""
    rows = context.rows
    return [
        questions.EndedFacts(
            rows.node(NodeName(one.death.node)) if one.death.node else None,
            rows.node(one.place),
            rows.item(one.place, one.reply),
        )
        for one in ended
    ]


# Facts for seeks, and for what is done and kept: slices of the queue, and of what is done.


def for_seek(context: Context, request: Seek) -> SeekFacts:
    """Return what a purge needs, and the newest item."""
    around = for_node(context, Purge(request.by, request.node))
    rows = context.rows
    mark = rows.row(SEEKS, request.node)
    newest = rows.page(listings.NewestItem(request.node, dead=False))
    return SeekFacts(around, sum(newest), mark)


def for_seek_items(context: Context, request: SeekItems) -> SeekItemsFacts:
    """Return the next items that may be older, or that may come back."""
    rows, name = context.rows, request.node
    known = SeekItemsFacts(context.now, rows.node(name), rows.row(SEEKS, name))
    if known.node is None or known.mark != request.mark:
        return known
    if request.place is None:
        found = oldest(rows, name, seek.SEEK_SLICE, request.after)
        return SeekItemsFacts(context.now, known.node, known.mark, found)
    done = tuple(rows.page(listings.DoneItems(name), request.place, seek.SEEK_SLICE))
    there = [item.id for item in done if rows.item(name, item.id) is not None]
    return SeekItemsFacts(context.now, known.node, known.mark, done, frozenset(there))


def for_resume(context: Context, _request: ResumeSeeks) -> ResumeSeeksFacts:
    """Return the mark of a seek that is under way."""
    rows = context.rows
    name = next(iter(rows.page(listings.Seeks())), None)
    return ResumeSeeksFacts(None if name is None else rows.row(SEEKS, name))


def for_drop(context: Context, request: DropDone) -> DropDoneFacts:
    """Return the next queue in which something that is done has to go."""
    rows, now = context.rows, context.now
    names = rows.page(listings.Keeping(), request.after or None, SEEK_LOOKED_AT)
    nodes = [node for name in names if (node := rows.counted(name)) is not None]
    for node in nodes:
        if seek.surplus(node, rows.page(listings.DoneItems(node.name)), now):
            found = rows.page(listings.DoneItems(node.name), None, seek.SEEK_SLICE)
            return DropDoneFacts(now, node, tuple(found))
    last = names[-1] if len(names) == SEEK_LOOKED_AT else NodeName("")
    return DropDoneFacts(now, next=last)


# Facts for retract, unlock and touch: the items, their holders, and the rows that their end needs.


def for_settle(context: Context, request: Settle | Touch | Cancel | Hold) -> SettleFacts:
    """Return the items that are to be settled, and their present and former holders."""
    rows, principal = context.rows, request.by
    node = rows.node(request.node)
    if node is None:
        return SettleFacts(context.now, None, Affiliation.NONE, (), frozenset(), subscribed=False)
    affiliation, subscribed = rows.rights(node.name, principal.account)
    items = tuple([rows.item(node.name, item) for item in request.ids])
    return SettleFacts(
        context.now,
        node,
        affiliation,
        items,
        _receipts(rows, principal, items),
        subscribed,
        () if node.config.queueing else subscribers(context, node),
    )


def for_hold(context: Context, request: Hold) -> HoldFacts:
    """Return the item, its holders, and what the account that pays for it may keep."""
    facts = for_settle(context, request)
    node = facts.node
    return HoldFacts(facts, None if node is None else context.allowance(node.creator))


def for_signal(context: Context, request: Signal | Close) -> SignalFacts:
    """Return the item, and the affiliation of who sends it a signal."""
    rows, now = context.rows, context.now
    node = rows.node(request.node)
    if node is None:
        return SignalFacts(now, None, Affiliation.NONE, None)
    affiliation = rows.affiliation(node.name, request.by.account)
    item, allowance = rows.item(node.name, request.id), context.allowance(node.creator)
    return SignalFacts(now, node, affiliation, item, allowance)


def for_joined(context: Context, joined: Mapping[int, Tally]) -> list[Met]:
    """Return the joins of these numbers, with their nodes."""
    rows = context.rows
    items = [(rows.item_at(seq), tally) for seq, tally in joined.items()]
    return [
        Met(item, None if item is None else rows.node(item.node), tally) for item, tally in items
    ]


def for_signal_link(context: Context, request: MakeSignalLink) -> MakeSignalLinkFacts:
    """Return the facts for a signal, and the secret under which links are made."""
    asked = Signal(request.by, request.node, request.id, request.name, "", request.link)
    secret = context.rows.row(SECRETS, request.proposed.name)
    return MakeSignalLinkFacts(for_signal(context, asked), secret)


def for_each(context: Context, request: SettleEach) -> tuple[SettleFacts, ...]:
    """Return the facts of the requests for each lock alone; the common ones are looked up once."""
    singles = singly(request)
    of: dict[Jid, list[int]] = {}
    for at, single in enumerate(singles):
        of.setdefault(single.by.jid, []).append(at)
    found: dict[int, SettleFacts] = {}
    for places_of_one in of.values():
        first = singles[places_of_one[0]]
        joint = replace(first, ids=tuple([singles[at].ids[0] for at in places_of_one]), token=None)
        facts = for_end(context, joint) if isinstance(joint, Settle) else for_settle(context, joint)
        found |= zip(places_of_one, _one_by_one(facts, len(places_of_one)), strict=True)
    each = [found[at] for at in range(len(singles))]
    if isinstance(request.template, Settle) and request.template.remember is not None:
        each = [_with_memory(context, *one) for one in zip(singles, each, strict=True)]
    return tuple(each)


def _with_memory(context: Context, request: Settle | Touch, facts: SettleFacts) -> SettleFacts:
    if request.token is None:
        return facts
    return replace(facts, settled=context.rows.row(SETTLED, request.token))


def _one_by_one(facts: SettleFacts, count: int) -> Iterator[SettleFacts]:
    """Yield the same facts for each of the items alone."""
    for at in range(count):
        here = slice(at, at + 1)
        yield replace(
            facts, items=facts.items[here], places=facts.places[here], digests=facts.digests[here]
        )


def for_discard(context: Context, request: Discard) -> DiscardFacts:
    """Return the next dead items of the node, if the principal may manage it."""
    rows, by = context.rows, request.by
    node = rows.node(request.node)
    affiliation = rows.affiliation(request.node, by.account)
    if node is None or objection(by, node, affiliation) is not None:
        return DiscardFacts(node, affiliation)
    found = rows.page(listings.DeadItems(node.name), request.after or None, CANCEL_SLICE)
    return DiscardFacts(node, affiliation, tuple(found))


def _receipts(
    rows: WorkingSet, principal: Principal, items: tuple[Item | None, ...]
) -> frozenset[tuple[int, Jid]]:
    """Return the relevant receipts of the items: holding one now outranks having held it."""
    asked = [
        item
        for item in items
        if item is not None
        and item.acquired > (item.state is State.LOCKED)  # a lock of it has ended
        and not holds(principal, item)
    ]
    if not asked:
        return frozenset()
    jids = (principal.jid, principal.account)
    return frozenset((item.seq, jid) for item in asked for jid in rows.lost_by(item, jids))


def for_end(context: Context, request: Settle) -> SettleFacts:
    """Return the same, and the rows that the end of the items needs: their places if they die, their digests."""
    facts = for_settle(context, request)
    if request.remember is not None and request.token is not None:
        facts = replace(facts, settled=context.rows.row(SETTLED, request.token))
    node = facts.node
    if node is None or (request.verb is Verb.UNLOCK and request.outcome is Outcome.RELEASE):
        return facts
    if request.verb is Verb.RETRACT:
        return _with_digests(context, request, facts) if node.config.dedup_window else facts
    rejected = request.outcome is Outcome.REJECT
    dying = [
        (item, node) if item is not None and (rejected or exhausted(item, node.config)) else None
        for item in facts.items
    ]
    return replace(facts, places=places(context, dying))


def _may_finish(request: Settle, item: Item) -> bool:
    """Return whether a retract may report the work as done, under whichever token."""
    if holds(request.by, item):
        return True
    return request.late and is_late(request.by, item, item.token)


def _with_digests(context: Context, request: Settle, facts: SettleFacts) -> SettleFacts:
    rows = context.rows
    payloads: list[bytes | None] = []
    for item in facts.items:
        if item is None or not _may_finish(request, item):
            payloads.append(None)
            continue
        payloads.append(rows.payload(item) or None)
        rows.row(FINISHED, (item.node, item.id))  # the record of an earlier end is replaced
    if rows.lacking:
        return facts
    digests = tuple(
        None if each is None else context.payloads.fingerprint(each) for each in payloads
    )
    return replace(facts, digests=digests)


# Facts for requests for items without a subscription.


def for_take(context: Context, request: Take) -> TakeFacts:
    """Return the account's affiliation with the node and its items there, and how many takes wait here."""
    rows, account = context.rows, request.by.account
    node = rows.node(request.node)
    is_ours = (
        account == context.service.account
    )  # as its pushes are: they are limited by their queues
    of_account, waiting = (0, 0) if is_ours else context.waiting(account)
    return TakeFacts(
        now=context.now,
        node=node,
        affiliation=rows.affiliation(request.node, account),
        subscriptions=tuple(rows.subscriptions_in(request.node, account)),
        owners=owners_to_notify(rows, node),
        held=0 if node is None else rows.held_of(request.node, account),
        of_account=of_account,
        waiting=waiting,
        unused=rows.unused_token(),
    )


# Facts for the items that an address holds.


def for_held(context: Context, request: ReadHeld) -> HeldFacts:
    """Return the items of the node that are locked to exactly this address."""
    rows = context.rows
    items, _ = rows.held_by(request.by.jid)
    return HeldFacts(
        tuple(
            [
                (item, rows.payload(item))
                for item in items
                if item.node == request.node and not rows.is_damaged(item)
            ]
        )
    )
