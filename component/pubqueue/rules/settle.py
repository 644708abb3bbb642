"""Retract and unlock on a queue node (XEP-0254 2.3, 2.4), and what one holds."""

from __future__ import annotations

from enum import Enum, auto, unique
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pubqueue.model.changes import RemoveItem
from pubqueue.model.decision import (
    Decision,
    Done,
    Read,
    Refusal,
    Refused,
    Request,
    Taken,
    Withdrawn,
    refuse,
)
from pubqueue.model.entities import (
    AccessModel,
    Affiliation,
    Item,
    ItemId,
    Jid,
    Millis,
    Node,
    NodeName,
    Principal,
    State,
    covers,
    later,
    seconds,
)
from pubqueue.model.notices import NOBODY, Notice, Retracted, Unlocked, notify
from pubqueue.rules import access
from pubqueue.rules.access import Action
from pubqueue.rules.give_back import Case, fail, give_up, in_their_places, release, work_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pubqueue.model.changes import Change
    from pubqueue.model.notices import Audience
    from pubqueue.model.records import Settled
    from pubqueue.rules.give_back import DeadLetterPlace


# Retract and unlock on a queue node: which principals may end a lock, and how (XEP-0254 2.3 and 2.4).
#
# The whole judgement is the table SETTLE: the item's relation to the queue x the principal's relation to
# the item. The principal's standing is its most specific relation: holder of the item, former holder
# (which outranks owner of the node, so that a late worker never deletes an item that is being tried
# again), then owner or publisher, then subscriber, then none. A request may name its lock, by the token;
# a principal that names a lock that is over can do less than by its standing alone.


@unique
class Verb(Enum):
    """What the principal wants of the item."""

    __hash__ = object.__hash__  # an enumeration's own is a call in Python

    RETRACT = auto()
    UNLOCK = auto()


@unique
class Outcome(Enum):
    """How the attempt ended, in an unlock."""

    RELEASE = "release"
    """No failure is counted."""
    FAILED = "failed"
    """It went wrong, and may go better next time."""
    REJECT = "reject"
    """It will never go well: the item is dead."""


@unique
class Situation(Enum):
    """The state of the item at this moment."""

    __hash__ = object.__hash__  # an enumeration's own is a call in Python

    GONE = auto()
    FREE = auto()
    LATE = auto()
    """Free, without another lock since the one that the request names; the request allows a late answer."""
    LOCKED = auto()


@unique
class Standing(Enum):
    """The principal's relation to the item, the most specific one first."""

    __hash__ = object.__hash__  # an enumeration's own is a call in Python

    HOLDS = auto()
    HELD = auto()
    STALE = auto()
    """It holds the item, or may retract it as owner or author, but names another lock than the item's last."""
    OWNER = auto()
    AUTHOR = auto()
    SUBSCRIBED = auto()
    STRANGER = auto()


UNEXPLAINED: Final = "the worker gave no reason"

_ANOTHER_LOCK: Final = "the item is no longer under the lock of this token"

Verdict = Refusal | None
"""A refusal, or None: it may be done."""

_GONE = Refusal.ITEM_NOT_FOUND
_NOT_YOURS = Refusal.NOT_YOURS
_CONFLICT = Refusal.LOCKED_BY_ANOTHER
_LOST = Refusal.LOCK_LOST

# fmt: off
_TABLE: Final[dict[tuple[Verb, Situation], tuple[Verdict, ...]]] = {
    #                                   HOLDS  HELD       STALE  OWNER       AUTHOR      SUBSCRIBED  STRANGER
    (Verb.RETRACT, Situation.GONE):   (_GONE, _GONE,     _GONE, _GONE,      _GONE,      _GONE,      _GONE),
    (Verb.RETRACT, Situation.FREE):   (_LOST, _LOST,     _LOST, None,       None,       _NOT_YOURS, _NOT_YOURS),
    # the work is done, though the lock had run out, and no other worker has begun it
    (Verb.RETRACT, Situation.LATE):   (_LOST, None,      _LOST, None,       None,       _NOT_YOURS, _NOT_YOURS),
    (Verb.RETRACT, Situation.LOCKED): (None,  _CONFLICT, _LOST, None,       None,       _CONFLICT,  _NOT_YOURS),
    (Verb.UNLOCK,  Situation.GONE):   (_GONE, _GONE,     _GONE, _GONE,      _GONE,      _GONE,      _GONE),
    # an owner that never held the item has nothing to unlock; having published it makes no
    # difference
    (Verb.UNLOCK,  Situation.FREE):   (_LOST, _LOST,     _LOST, _NOT_YOURS, _NOT_YOURS, _NOT_YOURS, _NOT_YOURS),
    # it is unlocked already
    (Verb.UNLOCK,  Situation.LATE):   (_LOST, _LOST,     _LOST, _NOT_YOURS, _NOT_YOURS, _NOT_YOURS, _NOT_YOURS),
    (Verb.UNLOCK,  Situation.LOCKED): (None,  _CONFLICT, _LOST, _CONFLICT,  _NOT_YOURS, _CONFLICT,  _NOT_YOURS),
}
# fmt: on

_BY_THE_LOCK: Final = {
    Verb.RETRACT: frozenset({Standing.HOLDS, Standing.OWNER, Standing.AUTHOR}),
    Verb.UNLOCK: frozenset({Standing.HOLDS}),
}
"""Standings by which it may be done, unless the named lock is over. For others a token makes no difference."""

SETTLE: Final[dict[tuple[Verb, Situation, Standing], Verdict]] = {
    (verb, situation, standing): verdict
    for (verb, situation), row in _TABLE.items()
    for standing, verdict in zip(Standing, row, strict=True)
}


class Settle(Request, frozen=True, gc=False):
    """Retract or unlock these items, all or none (XEP-0060 12.11).

    `queue_only` asks for a refusal on any other node: the principal used a form that only queues
    know. `outcome`, `delay` and `reason` belong to an unlock: how the attempt ended, how long the
    item is delayed, and why, which is kept as the item's last error. `token` names one lock: a
    later lock of the principal on the same item is another one. With `late` a retract counts after
    that lock has ended too, as long as no other subscriber has been given the item. With `remember`,
    how long it is remembered that the lock was settled so, a repetition gets the same answer. With `seq` an item of a
    plain node is meant that has this number, not another one under its id. With `quiet` the principal gets no notice of
    its own locks that this ends: its protocol has no other word for it than the answer.
    """

    by: Principal
    node: NodeName
    ids: tuple[ItemId, ...]
    verb: Verb
    notify: bool = False
    queue_only: bool = False
    outcome: Outcome = Outcome.RELEASE
    delay: Millis | None = None
    reason: str = ""
    token: int | None = None
    late: bool = False
    remember: Millis | None = None
    seq: int | None = None
    quiet: bool = False


class SettleFacts(Struct, frozen=True, gc=False):
    """The rows of the request, in the order of the ids; None for an item that does not exist.

    `receipts` says which accounts have held which item, by its seq. `subscribed` is about the
    principal's account, `audience` (plain nodes only) is all subscribers, `places` (outcomes other
    than a release only) are the places for the items if they die, `digests` (retracts from queues
    that remember finished work only) stand for the payloads of those that the principal finishes.
    `settled` is what is remembered of the lock that is named, if the request asks for that.
    """

    now: Millis
    node: Node | None
    affiliation: Affiliation
    items: tuple[Item | None, ...]
    receipts: frozenset[tuple[int, Jid]]
    subscribed: bool
    audience: Audience = ()
    places: tuple[DeadLetterPlace | None, ...] = ()
    digests: tuple[bytes | None, ...] = ()
    settled: Settled | None = None


def settle(request: Settle, facts: SettleFacts) -> Decision:
    """Decide a retract or an unlock; the first item that may not be settled refuses them all."""
    judged = judge(request.by, request.verb, facts, token=request.token, late=request.late)
    if isinstance(judged, Decision):
        return judged
    if not judged.config.queueing:
        return _retract_plainly(request, facts, judged)
    items = [item for item in facts.items if item is not None]
    if request.verb is Verb.RETRACT:
        return _retract(request, judged, items, facts)
    return _unlock(request, facts, judged, items)


def judge(
    principal: Principal,
    verb: Verb,
    facts: SettleFacts,
    *,
    token: int | None = None,
    late: bool = False,
) -> Node | Decision:
    """Return the node if the principal may do this to all the items, otherwise the refusal.

    `token` and `late` are those of the request. On a plain node this judges only whether the
    principal may see it.
    """
    node = facts.node
    if node is None:
        return refuse(Refusal.NODE_NOT_FOUND)
    standings = [_standing(principal, verb, item, facts) for item in facts.items]
    known = facts.subscribed or Standing.HOLDS in standings or Standing.HELD in standings
    # a publisher that withdraws its items (XEP-0060 7.2) learns nothing about a closed node by it
    known = known or all(standing is Standing.AUTHOR for standing in standings)
    affiliation = access.standing_of(principal, facts.affiliation)
    if (closed := access.barred(affiliation, node, known=known)) is not None:
        return refuse(closed)
    stranger = affiliation is Affiliation.NONE and not known
    if stranger and node.config.access_model is not AccessModel.OPEN:
        return refuse(Refusal.FORBIDDEN)  # whether the item exists or not (row 4a)
    if not node.config.queueing:
        return node
    for item, standing in zip(facts.items, standings, strict=True):
        situation = _situation(item)
        if token is not None and item is not None:
            if late and is_late(principal, item, token):
                situation = Situation.LATE
            if token != item.token and standing in _BY_THE_LOCK[verb]:
                standing = Standing.STALE  # noqa: PLW2901  # from here on
        verdict = SETTLE[verb, situation, standing]
        if verdict is not None:
            return refuse(verdict, _ANOTHER_LOCK if standing is Standing.STALE else "")
    return node


def _situation(item: Item | None) -> Situation:
    if item is None:
        return Situation.GONE
    return Situation.LOCKED if item.state is State.LOCKED else Situation.FREE


def is_late(principal: Principal, item: Item, token: int) -> bool:
    """Return whether the item is free, and the principal was the last to hold it, under that token."""
    if token != item.token or item.state is State.LOCKED:
        return False
    last = last_holder(item)
    return last is not None and covers(last, principal.jid)


def last_holder(item: Item) -> Jid | None:
    """Return the holder of the item, or its last holder in this node; None if it was not delivered there."""
    if item.state is State.DEAD and item.dead_letter is not None:
        return item.dead_letter.holder
    return item.holder or item.avoid


def finishes(request: Settle, item: Item) -> bool:
    """Return whether a retract reports the work as done: by its holder, or a late one by its last holder."""
    if holds(request.by, item):
        return True
    return request.late and request.token is not None and is_late(request.by, item, request.token)


def _standing(principal: Principal, verb: Verb, item: Item | None, facts: SettleFacts) -> Standing:
    """Find the principal's most specific standing, in the order of the enumeration."""
    if item is not None:
        if holds(principal, item):
            return Standing.HOLDS
        if (item.seq, principal.jid) in facts.receipts or (
            item.seq,
            principal.account,
        ) in facts.receipts:
            return Standing.HELD
    if access.standing_of(principal, facts.affiliation) is Affiliation.OWNER:
        return Standing.OWNER
    wrote_it = item is not None and item.publisher == principal.account
    if wrote_it and verb is Verb.RETRACT:
        return Standing.AUTHOR
    return Standing.SUBSCRIBED if facts.subscribed else Standing.STRANGER


def holds(principal: Principal, item: Item) -> bool:
    """Return whether the item is locked to the principal; only a retract by the holder means that the work is done."""
    holder = item.holder
    return holder == principal.jid or (holder is not None and covers(holder, principal.jid))


def _retract(request: Settle, node: Node, items: Sequence[Item], facts: SettleFacts) -> Decision:
    """Remove the items; their holders are notified, also of an own retract (unless `quiet`) and of an owner's (2.3).

    An item retracted by its holder, or late by its last one, is finished: it may be remembered, and
    kept. One withdrawn by another is gone, and the reply names the items that were locked.
    """
    window, done_at = node.config.dedup_window, facts.now if node.config.keep_done else None
    if window:
        until = later(facts.now, seconds(window))
        changes = tuple(
            RemoveItem(item, until, digest, done_at, None if done_at is None else last_holder(item))
            if digest is not None and finishes(request, item)
            else RemoveItem(item)
            for item, digest in zip(items, facts.digests, strict=True)
        )
    elif done_at is not None:
        changes = tuple(
            RemoveItem(item, done_at=done_at, done_by=last_holder(item))
            if finishes(request, item)
            else RemoveItem(item)
            for item in items
        )
    else:
        changes = tuple(map(RemoveItem, items))
    locked = tuple([item.id for item in items if item.holder and not holds(request.by, item)])
    reply = Withdrawn(locked) if locked else Done()
    return Decision(
        reply,
        changes,
        to_holders(Retracted, node.name, items, request.by.jid if request.quiet else None),
    )


def _unlock(request: Settle, facts: SettleFacts, node: Node, items: Sequence[Item]) -> Decision:
    """Unlock the items with the outcome (2.4)."""
    notices = to_holders(Unlocked, node.name, items, request.by.jid if request.quiet else None)
    if request.outcome is Outcome.RELEASE:
        wish, why = request.delay, request.reason
        freed = tuple(release(item, node, facts.now, delay=wish, reason=why) for item in items)
        return Decision(Done(), freed, notices)
    cases = [Case(item, node, place) for item, place in zip(items, facts.places, strict=True)]
    ends = [_end(request, case, facts.now) for case in cases]
    ends = list(in_their_places(ends, cases))
    return Decision(Done(), tuple(ends), notices, work=work_of(ends))


def _end(request: Settle, case: Case, now: Millis) -> Change:
    reason = request.reason or UNEXPLAINED
    if request.outcome is Outcome.REJECT:
        return give_up(case, now, reason, failed=case.item.failed + 1)
    return fail(case, now, reason, delay=request.delay)


def to_holders(
    kind: type[Retracted | Unlocked], node: NodeName, items: Sequence[Item], but: Jid | None = None
) -> tuple[Notice, ...]:
    """Return the notices to the holders of some of the items, except to one."""
    if len(items) == 1:
        only = items[0]
        return () if only.holder in {None, but} else (kind(only.holder, node, (only.id,)),)
    held: dict[Jid, list[ItemId]] = {}
    for item in items:
        if item.holder not in {None, but}:
            held.setdefault(item.holder, []).append(item.id)
    return tuple(kind(holder, node, tuple(ids)) for holder, ids in held.items())


def _retract_plainly(request: Settle, facts: SettleFacts, node: Node) -> Decision:
    """Retract from a plain node: the owner, or the item's publisher (XEP-0060 7.2)."""
    if request.verb is Verb.UNLOCK:
        return refuse(Refusal.NOT_A_QUEUE)
    if request.queue_only:
        return refuse(
            Refusal.BAD_REQUEST, "only items of a queue can be retracted with this request"
        )
    if not node.config.persist_items:  # XEP-0060 7.2.3.5
        return Decision(Refused(Refusal.UNSUPPORTED, setting="persistent-items"))
    affiliation = access.standing_of(request.by, facts.affiliation)
    items = [item for item in facts.items if item is not None]
    if len(items) < len(facts.items):
        return refuse(Refusal.ITEM_NOT_FOUND)
    if request.seq is not None and any(item.seq != request.seq for item in items):
        return refuse(Refusal.PRECONDITION_NOT_MET, "the message is another one")
    owner = access.may(affiliation, Action.DELETE_ANY_ITEM, node)
    if not owner and any(item.publisher != request.by.account for item in items):
        return refuse(Refusal.FORBIDDEN)
    audience = facts.audience if request.notify or node.config.notify_retract else ()
    ids = tuple(item.id for item in items)
    notices = notify(node, audience, Retracted(NOBODY, node.name, ids))
    return Decision(Done(), tuple(RemoveItem(item) for item in items), notices)


# Read what one holds: an address reads the items of a queue that are locked to it.


class ReadHeld(Read, frozen=True, gc=False):
    """Ask for the items of the node that are locked to exactly the principal's address; the first of very many."""

    node: NodeName


class HeldFacts(Struct, frozen=True, gc=False):
    """The items, with their payloads."""

    items: tuple[tuple[Item, bytes], ...]


def read_held(request: ReadHeld, facts: HeldFacts) -> Decision:
    """Return the items, the oldest first."""
    return Decision(Taken(request.node, facts.items))
