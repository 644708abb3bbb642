"""Locks that change without a settle: ended by an owner, extended by touch, shortened or sent again after a crash."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003  # msgspec reads it
from enum import Enum, auto, unique
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.model.changes import EndSubscription, Extend, SetTimes
from pubqueue.model.decision import Decision, Recovered, Refusal, Request, Resent, Touched, refuse
from pubqueue.model.entities import Affiliation, Level, Millis, State, later, seconds
from pubqueue.model.notices import Deliver, Unlocked
from pubqueue.model.replies import Freed
from pubqueue.rules.give_back import release
from pubqueue.rules.inspect import OWNERS, objection
from pubqueue.rules.settle import Verb, judge, to_holders

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pubqueue.model.changes import Change
    from pubqueue.model.entities import Item, ItemId, Jid, Node, NodeName, Principal
    from pubqueue.rules.settle import SettleFacts


# An owner ends locks of other accounts: of named items, or of one subscriber, whose subscription may end too.
#
# Retract and unlock (`settle`) cannot do that: they apply to one's own work. This is for operators of
# the queue, for workers that hang or have to be removed. No failure is counted, so the items wait again
# at once, and avoid the same worker while another one is available.

NOT_LOCKED: Final = "no worker holds item {}"


def absent(node: NodeName, ids: Sequence[ItemId]) -> str:
    """Return a sentence that names the first of the missing items."""
    more = f", and {len(ids) - 1} more of these" if len(ids) > 1 else ""
    return f"{node} has no item {ids[0]}{more}"


class FreeLocks(Request, frozen=True, gc=False):
    """End the locks of these items, all or none."""

    by: Principal
    node: NodeName
    ids: tuple[ItemId, ...]


class Dismiss(Request, frozen=True, gc=False):
    """End the subscription of exactly this JID, and with `freeing` the locks that it holds of the node."""

    by: Principal
    node: NodeName
    jid: Jid
    freeing: bool = True


class FreeHeld(Request, frozen=True, gc=False):
    """Free the next of the items that the JID held in the node when it was dismissed: after `after`, with tokens below `unused`.

    `freed` were freed in the slices before.
    """

    node: NodeName
    jid: Jid
    unused: int
    after: int
    freed: int


class FreeFacts(Struct, frozen=True, gc=False):
    """The node, and the items that are named or held; None for an item that does not exist. `subscribed` is about the JID.

    The JID may hold more after the number `last`, None at the end; all locks given so far are below
    the token `unused`.
    """

    now: Millis
    node: Node | None
    affiliation: Affiliation = Affiliation.NONE
    items: tuple[Item | None, ...] = ()
    subscribed: bool = False
    last: int | None = None
    unused: int = 0


def free_locks(request: FreeLocks, facts: FreeFacts) -> Decision:
    """Decide whether the locks end; the holders are notified, as after an unlock (XEP-0254 2.4)."""
    node = _managed(request.by, facts)
    if isinstance(node, Decision):
        return node
    items = [item for item in facts.items if item is not None]
    if len(items) < len(facts.items):
        there = {item.id for item in items}
        gone = [name for name in request.ids if name not in there]
        return refuse(Refusal.ITEM_NOT_FOUND, absent(node.name, gone))
    for item in items:
        if item.state is not State.LOCKED:
            return refuse(Refusal.LOCK_LOST, NOT_LOCKED.format(item.id))
    return _freed(node, items, facts, ())


def dismiss(request: Dismiss, facts: FreeFacts) -> Decision:
    """Decide whether the subscription ends; without `freeing` its locks stay until settled or timed out."""
    node = _managed(request.by, facts)
    if isinstance(node, Decision):
        return node
    if not facts.subscribed:
        return refuse(Refusal.NOT_SUBSCRIBED, f"{request.jid} does not subscribe to {node.name}")
    items = [item for item in facts.items if item is not None and request.freeing]
    done = _freed(node, items, facts, (EndSubscription(node.name, request.jid),))
    if facts.last is None or not request.freeing:
        return done
    rest = FreeHeld(node.name, request.jid, facts.unused, facts.last, len(items))
    return replace(done, then=rest)


def free_held(request: FreeHeld, facts: FreeFacts) -> Decision:
    """Free a slice of the remaining items. Those that remain when the service is killed stay locked until settled or timed out."""
    if facts.node is None:
        return Decision(Freed(request.node, request.freed))
    items = [item for item in facts.items if item is not None and item.token < request.unused]
    count = request.freed + len(items)
    done = _freed(facts.node, items, facts, ())
    then = None if facts.last is None else replace(request, after=facts.last, freed=count)
    return replace(done, reply=Freed(request.node, count), then=then)


def _managed(by: Principal, facts: FreeFacts) -> Node | Decision:
    no = objection(by, facts.node, facts.affiliation)
    if no is not None or facts.node is None:
        return refuse(no or Refusal.NODE_NOT_FOUND, OWNERS if no is Refusal.FORBIDDEN else "")
    return facts.node


def _freed(node: Node, items: list[Item], facts: FreeFacts, first: tuple[Change, ...]) -> Decision:
    freed = tuple(release(item, node, facts.now) for item in items)
    held: dict[Jid, list[ItemId]] = {}
    for item in items:
        if item.holder is not None:
            held.setdefault(item.holder, []).append(item.id)
    notices = tuple(Unlocked(holder, node.name, tuple(ids)) for holder, ids in held.items())
    return Decision(Freed(node.name, len(items)), (*first, *freed), notices)


# Locks, delays and lifetimes from a clock that was ahead: after it was set back they would last too long.
#
# A lock that ends later than one given now gets the deadline of a new one, so that a holder that is gone costs no more than
# that. The same happens, without harm, to locks given before their queue's lock timeout was lowered.
#
# An item that was published or delivered later than now bears the times of a clock that was ahead. It was published or
# delivered now instead: its delay begins again, and it lives no longer than an item that is published now. Neither ends early.
# Two things cannot be told apart and stay as they are: a lifetime of the publisher's own, which may have been a moment, and a
# delay that such a clock gave to an item that it neither published nor delivered.

UNNOTICED: Final = seconds(60)
"""Items may have been published for so long by the right clock before it is noticed that it was set back."""


@unique
class Among(Enum):
    """Which items a recovery looks at, in this order."""

    LOCKS = auto()
    DELAYED = auto()
    NEWEST = auto()


_FOLLOWING: Final = {Among.LOCKS: Among.DELAYED, Among.DELAYED: Among.NEWEST}


class Recover(Request, frozen=True, gc=False):
    """Correct the effects of a clock that was set back, slice by slice: locks, then delayed items, then the newest of all.

    `before` is the last item that was looked at: its deadline, or when it is due or was published, and its number. The latest comes first.
    """

    among: Among = Among.LOCKS
    before: tuple[Millis, int] | None = None


class RecoverFacts(Struct, frozen=True, gc=False):
    """The next of these items, each with its node; there may be more after `rest`."""

    now: Millis
    items: tuple[tuple[Item, Node], ...] = ()
    rest: tuple[Millis, int] | None = None


def longest(node: Node, now: Millis) -> Millis:
    """Return when a lock given now ends."""
    return later(now, seconds(node.config.longest_lock))


def recover(request: Recover, facts: RecoverFacts) -> Decision:
    """Limit locks to the deadline of a new one, and begin delays again that a clock that was ahead has given."""
    right = [_corrected(item, node, facts.now) for item, node in facts.items]
    changes = tuple([change for change in right if change is not None])
    following = _FOLLOWING.get(request.among)
    then = None if following is None else Recover(following)
    if facts.rest is not None:
        then = Recover(request.among, facts.rest)
    holders = {item.holder: None for item, _ in facts.items if item.holder is not None}
    return Decision(Recovered(tuple(holders)), changes, then=then)


def _corrected(item: Item, node: Node, now: Millis) -> Change | None:
    """Return the change that makes the item's times those of the clock now, None if they are."""
    deadline = None if item.deadline is None else min(item.deadline, longest(node, now))
    taken, due, expires = item.taken, item.due, item.expires
    since = Millis(0 if item.wait is None else item.wait.since)
    made = max(item.published, taken or item.published, since)
    if made <= now:
        return None if deadline is None or deadline == item.deadline else Extend(item, deadline)
    if due is not None and item.state in {State.DELAYED, State.HELD} and due >= made:
        due = Millis(due - made + now)
    life = node.config.item_expire
    if expires is not None and life is not None and item.published > now:
        expires = min(expires, later(now, seconds(life)))
    taken = None if taken is None else min(taken, now)
    return SetTimes(item, min(item.published, now), taken, due, expires, deadline)


# Deliveries that may never have been sent: after a crash they are sent again, under the same token.
#
# A subscriber that has the item already knows the token, and works on it once; no other subscriber
# gets it.

RESEND_LOOKED_AT: Final = 250
"""Up to how many locks one step looks at."""

MAX_BYTES: Final = 1 << 20
"""Bytes of payload that one step sends again; the delivery that exceeds them is the last."""


class Resend(Request, frozen=True, gc=False):
    """Send the locks with tokens in `span` again, a slice at a time after `after`.

    Without `span`: those with tokens that the process numbered `instance` has not recorded as sent,
    up to the newest.
    """

    span: tuple[int, int] | None = None
    after: tuple[Millis, int] | None = None
    instance: int = 0


class ResendFacts(Struct, frozen=True, gc=False):
    """The span, the slice of locks by deadline and number, and the payloads of those to be sent, by number.

    `subids` are those of their holders' subscriptions, by number of the item, if these exist.
    """

    now: Millis
    span: tuple[int, int]
    locks: tuple[Item, ...]
    payloads: dict[int, bytes]
    subids: Mapping[int, str] = {}
    levels: Mapping[int, Level] = {}
    """Of those whose deliveries are not messages, likewise."""


def is_undelivered(item: Item, span: tuple[int, int], now: Millis) -> bool:
    """Return whether the item is still locked and its delivery may never have been sent."""
    lasts = item.deadline is not None and item.deadline > now
    return lasts and span[0] <= item.token < span[1]


def resend(_request: Resend, facts: ResendFacts) -> Decision:
    """Send the deliveries again; the reply contains where the next slice begins."""
    sent = tuple(
        Deliver(
            item.holder,
            item,
            facts.payloads[item.seq],
            again=True,
            subid=facts.subids.get(item.seq, ""),
            level=facts.levels.get(item.seq, Level.UNACKNOWLEDGED),
        )
        for item in facts.locks
        if item.holder is not None and item.seq in facts.payloads
    )
    after = None
    if facts.locks and (last := facts.locks[-1]).deadline is not None:
        after = last.deadline, last.seq
    return Decision(Resent(facts.span, after), (), sent)


# Touch: a holder extends its lock while the work goes on. An addition of ours to XEP-0254.


class Touch(Request, frozen=True, gc=False):
    """Hold these items for `span` from now on, None for the node's own lock timeout; all or none.

    The node may let a lock be extended for longer than its timeout (`lock_longest`).

    The lock timeout of a subscription is for new locks: its holder may touch them for as long as the node allows.

    `token` names the lock that is meant. With `exact` the deadline may come nearer too, and a span of 0
    releases the items at once, which is no failure.
    """

    by: Principal
    node: NodeName
    ids: tuple[ItemId, ...]
    span: Millis | None = None
    token: int | None = None
    exact: bool = False


def touch(request: Touch, facts: SettleFacts) -> Decision:
    """Decide a touch. A principal that may unlock may touch; only an exact touch brings a deadline nearer."""
    node = judge(request.by, Verb.UNLOCK, facts, token=request.token)
    if isinstance(node, Decision):
        return node
    if not node.config.queueing:
        return refuse(Refusal.NOT_A_QUEUE)
    span = request.span
    if span is None:
        span = seconds(node.config.lock_timeout)
    span = min(span, seconds(node.config.longest_lock))
    items = [item for item in facts.items if item is not None]
    if request.exact and not span:
        return _release(node, items, facts.now)
    end = later(facts.now, span)
    extended = tuple(
        [Extend(item, end if request.exact else _furthest(item, end)) for item in items]
    )
    entries = tuple((change.item.id, change.deadline) for change in extended)
    return Decision(Touched(node.name, entries), extended)


def _furthest(item: Item, wanted: Millis) -> Millis:
    return wanted if item.deadline is None else max(item.deadline, wanted)


def _release(node: Node, items: list[Item], now: Millis) -> Decision:
    """Release the items, as an unlock without an outcome does."""
    freed = tuple(release(item, node, now) for item in items)
    reply = Touched(node.name, tuple((item.id, now) for item in items))
    return Decision(reply, freed, to_holders(Unlocked, node.name, items))
