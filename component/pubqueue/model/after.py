"""How each change alters its row, and the life of an item as one table."""

from __future__ import annotations

from enum import Enum, auto, unique
from typing import TYPE_CHECKING, Final, Literal, assert_never

from msgspec.structs import replace

from pubqueue.model import changes as c
from pubqueue.model.entities import (
    DeadLetter,
    Item,
    LeftOut,
    Millis,
    State,
    SubscriptionState,
    Terms,
    later,
    seconds,
    without_death,
)
from pubqueue.model.records import weight
from pubqueue.model.several_subscriptions import terms_of, together
from pubqueue.model.sums import sum_of, with_headers
from pubqueue.model.transactions import App, Attempt, StagedTotals, Version
from pubqueue.model.waits import NO_WAIT, AtDeadline, Woken, size_of

if TYPE_CHECKING:
    from pubqueue.model.entities import Headers, Jid, Node, NodeConfig, NodeName, Subscription
    from pubqueue.model.transactions import Stage


# How a change alters its row: before -> after. The only place that computes the row after a change.
#
# The two rows decide what a store writes, how the counters change, which receipts are kept and which
# queues have items to deliver. The transition itself is `lifecycle.NEXT`.


class ImpossibleChangeError(Exception):
    """A change that an item in its state cannot meet. Facts: `item`, `event`."""

    def __init__(self, item: Item, event: Transition) -> None:
        super().__init__(f"an item that is {item.state} cannot meet {event.name}")
        self.item = item
        self.event = event


def after(change: c.ItemChange) -> Item | None:  # noqa: C901, PLR0911, PLR0912  # one case for each change
    """Return the item as the change leaves it, None when it is gone.

    Raises:
        ImpossibleChangeError: the item's state cannot meet the change.

    """
    match change:
        case c.AddItem():
            return _added(change)
        case c.Lock():
            return _locked(change)
        case c.RemoveItem(done_at=None):
            if NEXT[change.item.state, Transition.RETRACT] is None:
                raise ImpossibleChangeError(change.item, Transition.RETRACT)
            return None
        case c.RemoveItem():
            return _done(change)
        case c.Release():
            return _released(change)
        case c.ReplacePayload():
            return _with_payload(change)
        case c.Extend():
            return replace(change.item, deadline=change.deadline)
        case c.SetLife():
            return replace(change.item, expires=change.expires)
        case c.SetTimes():
            return _redated(change)
        case c.Hold():
            return _held(change)
        case c.TakeSignal():
            return _with_signal(change)
        case c.Wake():
            return _woken(change.item, Woken.TIME)
        case c.Count():
            return _counted(change)
        case c.CloseJoin():
            return _closed(change.item)
        case c.Postpone():
            state = _next(change.item, Transition.POSTPONE)
            return replace(change.item, state=state, due=change.due, aside=True)
        case c.Ripen():
            return replace(change.item, state=_next(change.item, Transition.RIPEN), aside=False)
        case c.TakeTurn():
            return replace(change.item, turn=change.turn)
        case c.GiveUp():
            return _given_up(change)
        case c.Revive():
            return _revived(change)
        case _:
            assert_never(change)


def _next(item: Item, event: Transition) -> State:
    found = NEXT[item.state, event]
    if found is None:
        raise ImpossibleChangeError(item, event)
    return item.state if found == GONE else found


def _done(change: c.RemoveItem) -> Item:
    item, worker = change.item, change.done_by
    counts = {"acquired": item.acquired, "failed": item.failed}
    done = replace(_as_new(item, item.node, None), **counts, expires=item.expires)
    state, began = _next(item, Transition.FINISH), None if worker is None else item.taken
    done = replace(done, state=state, taken=change.done_at, avoid=worker, due=began, joins=0)
    return done if item.wait is None else replace(done, wait=None, size=item.size - item.wait.size)


def _revived(change: c.Revive) -> Item:
    _next(change.item, Transition.REVIVE)
    alive = replace(_as_new(_waits_no_more(change.item), change.to, None), expires=change.expires)
    return _with_headers(alive, without_death(alive.headers)) if alive.headers else alive


def _redated(change: c.SetTimes) -> Item:
    return replace(
        change.item,
        published=change.published,
        taken=change.taken,
        due=change.due,
        expires=change.expires,
        deadline=change.deadline,
    )


def _with_payload(change: c.ReplacePayload) -> Item:
    item, payload, headers = change.item, change.payload, change.headers
    counts = {
        "size": weight(payload, headers),
        "sum": sum_of(item.id, payload, item.group, headers),
    }
    return replace(item, publisher=change.publisher, headers=headers, wait=None, **counts)


def _added(change: c.AddItem) -> Item:
    draft = change.draft
    return Item(
        change.seq,
        change.node,
        draft.id,
        change.state,
        change.publisher,
        change.published,
        draft.priority,
        change.due,
        change.expires,
        headers=draft.headers,
        transaction=change.transaction,
        group=draft.group,
        size=weight(draft.payload, draft.headers) if draft.headers else len(draft.payload),
        sum=sum_of(draft.id, draft.payload, draft.group, draft.headers),
        wait=change.wait,
        joins=change.joins,
    )


def _locked(change: c.Lock) -> Item:
    item = change.item
    return replace(
        item,
        state=_next(item, Transition.LOCK),
        due=None,
        acquired=item.acquired + 1,
        holder=change.holder,
        deadline=change.deadline,
        token=change.token,
        aside=False,
        taken=change.at,
        wait=None if item.wait is None else item.wait.shown(),
    )


def _released(change: c.Release) -> Item:
    item = change.item
    failed = change.failed > item.failed
    state = _next(item, Transition.FAIL if failed else Transition.RELEASE)
    if change.due is not None:
        state = _next(replace(item, state=state), Transition.POSTPONE)
    return replace(
        item,
        state=state,
        due=change.due,
        failed=change.failed,
        released=change.released,
        avoid=None if change.is_recalled else item.holder,
        holder=None,
        deadline=None,
        turn=0 if change.is_recalled else item.turn,
        failure=change.reason or item.failure,
    )


def _held(change: c.Hold) -> Item:
    """Hold an item: this step of its work is done, so its failures are counted from zero."""
    item, wait = change.item, change.wait
    held = replace(
        item,
        state=_next(item, Transition.HOLD),
        due=change.due,
        failed=0,
        released=0,
        failure=None,
        holder=None,
        deadline=None,
        avoid=None,
        wait=wait,
        size=item.size - size_of(item.wait) + wait.size,
    )
    return _woken(held, Woken.SIGNAL) if wait.is_heard else held


def _with_signal(change: c.TakeSignal) -> Item:
    item = change.item
    wait = (item.wait or NO_WAIT).with_signal(change.signal)
    more = replace(item, wait=wait, size=item.size + change.signal.size)
    return _woken(more, Woken.SIGNAL) if change.wakes else more


def _counted(change: c.Count) -> Item:
    item, wait = change.item, change.item.wait or NO_WAIT
    counted = replace(item, wait=replace(wait, join=change.join))
    if change.wakes:
        return _woken(counted, Woken.COUNT)
    if change.fails is None:
        return counted
    return replace(
        item, due=change.fails, wait=replace(wait, join=change.join, then=AtDeadline.DEAD)
    )


def _closed(item: Item) -> Item:
    wait = item.wait or NO_WAIT
    return item if wait.join is None else replace(item, wait=replace(wait, join=wait.join.closed()))


def _woken(item: Item, by: Woken) -> Item:
    wait = replace(item.wait or NO_WAIT, woken=by)
    return replace(item, state=_next(item, Transition.WAKE), due=None, wait=wait)


def _waits_no_more(item: Item) -> Item:
    """Return an item that comes out of its wait in another way than by a signal: as if its time were over."""
    if item.state is not State.HELD:
        return item
    return replace(item, due=None, wait=replace(item.wait or NO_WAIT, woken=Woken.TIME))


def _given_up(change: c.GiveUp) -> Item:
    state = _next(change.item, Transition.GIVE_UP)
    item = _waits_no_more(change.item)
    came_from = item.dead_letter.origin if item.dead_letter else None
    origin = came_from if change.to is None else item.node
    dead = DeadLetter(change.number, change.at, change.reason, origin, item.holder or item.avoid)
    if change.to is not None:
        moved = _as_new(item, change.to, dead)
        return moved if change.onward is None else _passed_on(moved, change.onward)
    return replace(
        item,
        state=state,
        failed=change.failed,
        failure=change.reason if change.failed > item.failed else item.failure,
        aside=False,
        holder=None,
        deadline=None,
        dead_letter=dead,
        turn=0,
    )


def _passed_on(item: Item, onward: c.PassOn) -> Item:
    return replace(_with_headers(item, onward.headers), expires=onward.expires)


def _with_headers(item: Item, headers: Headers) -> Item:
    size = item.size - weight(b"", item.headers) + weight(b"", headers)
    return replace(item, headers=headers, size=size, sum=with_headers(item, headers))


def _as_new(item: Item, node: NodeName, dead_letter: DeadLetter | None) -> Item:
    """Let it wait in a node as a new item, in its old place."""
    return replace(
        item,
        node=node,
        state=State.QUEUED,
        due=None,
        expires=None,
        acquired=0,
        failed=0,
        released=0,
        holder=None,
        deadline=None,
        avoid=None,
        aside=False,
        taken=None,
        dead_letter=dead_letter,
        turn=0,
        failure=None,
    )


# --- consequences of before and after -----------------------------------------------------------


def in_queue(item: Item | None) -> Item | None:
    """Return the item if it is in its node: what is done is kept beside it."""
    return None if item is None or item.state is State.DONE else item


def lost_by(before: Item | None, now: Item | None) -> Jid | None:
    """Return the JID that has lost the lock; it is remembered as long as the item is in its node."""
    if before is None or now is None or before.holder is None or now.holder is not None:
        return None
    return before.holder if before.node == now.node else None


def begins_anew(before: Item | None, now: Item | None) -> bool:
    """Return whether the item has not been delivered since it was published or redriven."""
    return before is not None and now is not None and before.acquired > 0 and now.acquired == 0


def is_ready(item: Item | None) -> bool:
    """Return whether the item can be delivered, to at least one subscriber."""
    return item is not None and (
        item.aside or (item.state is State.QUEUED and (item.turn > 0 or not item.group))
    )


# --- nodes and their subscriptions ---------------------------------------------------------------


def node_after(
    change: c.CreateNode | c.ConfigureNode | c.NoteLeftOut | c.DeleteNode, before: Node | None
) -> Node | None:
    """Return the node as the change leaves it, None when it is gone."""
    match change:
        case c.CreateNode():
            return change.node
        case c.ConfigureNode():
            if before is None:
                return None
            creator = change.maker or before.creator
            return replace(before, config=change.config, creator=creator, damaged=False)
        case c.NoteLeftOut():
            if before is None:
                return None
            known = before.config.left_out
            items = change.items + (0 if known is None else known.items)
            left_out = LeftOut(items, change.at, change.why)
            return replace(before, config=replace(before.config, left_out=left_out))
        case c.DeleteNode():
            return None
        case _:
            assert_never(change)


def subscription_after(  # noqa: C901, PLR0911, PLR0912  # one case for each change
    change: c.SubscriptionChange, before: Subscription | None
) -> Subscription | None:
    """Return the subscription as the change leaves it, None when it is ended."""
    if isinstance(change, c.AddSubscription):
        return change.subscription
    if before is None:
        return None
    match change:
        case c.AddAnother():
            return together(before, (*terms_of(before), change.terms))
        case c.SetWindow():
            known = {"queue_requests": change.queue_requests, "available": before.listens}
            return replace(before, **known, unanswered=0)
        case c.SetLockTimeout():
            return replace(before, lock_timeout=change.lock_timeout)
        case c.SetLevel():
            return replace(before, qos=change.qos)
        case c.SetTerms():
            return _with_terms(change, before)
        case c.Approve():
            now = replace(before, state=SubscriptionState.SUBSCRIBED)
            return replace(now, available=now.listens)
        case c.SetAvailable():
            return replace(before, available=change.available and before.listens, unanswered=0)
        case c.SetQuiet():
            now = replace(before, quiet=change.quiet, unanswered=0)
            return replace(now, available=now.listens)
        case c.NoteUnanswered():
            available = before.available and not change.silenced
            return replace(before, unanswered=change.unanswered, available=available)
        case c.EndSubscription():
            left = () if change.subid is None else _others(before, change.subid)
            return together(before, left) if left else None
        case _:
            assert_never(change)


def _others(before: Subscription, subid: str) -> tuple[Terms, ...]:
    return tuple(terms for terms in terms_of(before) if terms.subid != subid)


def _with_terms(change: c.SetTerms, before: Subscription) -> Subscription:
    """Return it with other options for the named subscription."""
    now = Terms(
        change.subid or before.subid, change.deliver, change.expire, change.remind, change.temporary
    )
    each = [now if terms.subid == now.subid else terms for terms in terms_of(before)]
    return together(before, tuple(each))


def has_room(subscription: Subscription | None) -> bool:
    """Return whether the subscriber has room for a delivery."""
    return (
        subscription is not None
        and subscription.available
        and subscription.in_flight < subscription.queue_requests
    )


# --- staged items --------------------------------------------------------------------------------


def staged(  # noqa: PLR0917  # a row of each kind, in the order of the answer
    change: Stage,
    app: App | None,
    version: Version | None,
    attempt: Attempt | None,
    mine: StagedTotals | None,
    everybody: StagedTotals | None,
) -> tuple[App, Version, Attempt, StagedTotals, StagedTotals]:
    """Return the rows with the totals of staged items, as the change leaves them."""
    mark, at = change.mark, change.at
    items = sum(row.over is None for row in change.rows)
    size = sum(row.size - (row.over or 0) for row in change.rows)
    known = sum(row.known for row in change.rows if row.over is None)
    grouped = sum(row.draft.group != "" for row in change.rows)
    app = App(mark.app, change.owner) if app is None else app
    if version is None:
        version = Version(mark.app, mark.version, change.owner, mark.immediate, at, change.until)
    if attempt is None:
        attempt = Attempt(mark.app, mark.version, mark.part, mark.attempt)
    mine, everybody = mine or StagedTotals(change.owner), everybody or StagedTotals("")
    return (
        replace(app, used=at),
        replace(
            version, items=version.items + items, bytes=version.bytes + size, until=change.until
        ),
        replace(
            attempt,
            items=attempt.items + items,
            bytes=attempt.bytes + size,
            known=attempt.known + known,
            grouped=attempt.grouped + grouped,
        ),
        replace(mine, items=mine.items + items, bytes=mine.bytes + size),
        replace(everybody, items=everybody.items + items, bytes=everybody.bytes + size),
    )


# The life of an item, as one table.
#
# The table is total over state x event. A cell is the next state, GONE when the row disappears, or
# None if the event cannot happen in the state (the rules refuse it before, and the store's guards
# would too). A RELEASE or FAIL with a pause continues by POSTPONE to DELAYED in the same step. A
# delayed item can be locked only if it is delayed for the sake of one subscriber and goes to another.
# An item that is DONE is not in its queue any more, but can be brought back.
#
# The table also has the counters: a failed ending raises `failed`, a release raises `released`, a
# delivery raises `acquired`. Only `failed` leads to DEAD.


@unique
class Transition(Enum):
    """What can happen to an item."""

    __hash__ = object.__hash__  # an enumeration's own is a call in Python

    LOCK = auto()
    """A subscriber with a free window gets it."""
    RETRACT = auto()
    """It is done, or withdrawn by an account that may withdraw it."""
    RELEASE = auto()
    """Its holder unlocked it, or a delivery bounced; no failure is counted."""
    FAIL = auto()
    """Its lock timed out or its holder left."""
    GIVE_UP = auto()
    """It failed once too often, or its time to live ended."""
    POSTPONE = auto()
    """It is delayed."""
    RIPEN = auto()
    """Its waiting time is over."""
    REVIVE = auto()
    """An owner redrives it, or brings back what was done; in a dead-letter node it need not be DEAD."""
    FINISH = auto()
    """It is done, in a queue that keeps what is done."""
    HOLD = auto()
    """Its holder lets it wait for a signal, or for a time."""
    WAKE = auto()
    """What it was held for has come."""


GONE: Final = "gone"
Next = State | Literal["gone"] | None

# fmt: off
_TABLE: Final[dict[State, tuple[Next, ...]]] = {
    #                LOCK           RETRACT  RELEASE        FAIL           GIVE_UP     POSTPONE        RIPEN         REVIVE        FINISH      HOLD         WAKE
    State.QUEUED:  (State.LOCKED,  GONE,    None,          None,          State.DEAD, State.DELAYED,  None,         State.QUEUED, State.DONE, None,        None),
    State.LOCKED:  (None,          GONE,    State.QUEUED,  State.QUEUED,  State.DEAD, None,           None,         None,         State.DONE, State.HELD,  None),
    State.DELAYED: (State.LOCKED,  GONE,    None,          None,          State.DEAD, None,           State.QUEUED, State.QUEUED, State.DONE, None,        None),
    State.HELD:    (None,          GONE,    None,          None,          State.DEAD, None,           None,         State.QUEUED, State.DONE, None,        State.QUEUED),
    State.DEAD:    (None,          GONE,    None,          None,          None,       None,           None,         State.QUEUED, State.DONE, None,        None),
    State.DONE:    (None,          GONE,    None,          None,          None,       None,           None,         State.QUEUED, None,       None,        None),
}
# fmt: on

NEXT: Final[dict[tuple[State, Transition], Next]] = {
    (state, event): after
    for state, row in _TABLE.items()
    for event, after in zip(Transition, row, strict=True)
}


def backoff(config: NodeConfig, item: Item, times: int) -> Millis:
    """Return how long to wait before the next try: none for 0, then doubling between the bounds.

    Up to `backoff_jitter` of it is added, so that items which failed together do not come again together.
    """
    if times <= 0:
        return Millis(0)
    pause = seconds(min(config.backoff_max, config.backoff_min << min(times - 1, 30)))
    return Millis(pause + int(pause * config.backoff_jitter * _spread(item)))


_GOLDEN: Final = 0x9E3779B97F4A7C15
"""2**64 divided by the golden ratio: multiples of it are spread evenly (Knuth 6.4)."""


def _spread(item: Item) -> float:
    """Return a number from 0 to 1, the same for an item and its lock, and spread evenly over items and over locks."""
    return ((item.seq * _GOLDEN + item.token * (_GOLDEN >> 1)) % (1 << 64)) / (1 << 64)


def waiting(now: Millis, pause: Millis) -> tuple[State, Millis | None]:
    """Return the state of an item that may be delivered after `pause`, and when that is."""
    if pause <= 0:
        return State.QUEUED, None
    return State.DELAYED, later(now, pause)


def exhausted(item: Item, config: NodeConfig) -> bool:
    """Return whether one more failure exceeds the maximum."""
    return item.failed + 1 >= config.max_failures
