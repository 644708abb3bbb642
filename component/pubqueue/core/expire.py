"""What time and absence do to items: locks that run out, holders that leave, items nobody wants.

A failure is charged to the item (`failed`), never to the queue: the item goes to somebody else at
once, then ever more slowly, and is dead after `max_failures`. Dead items stay or move to the
dead-letter node; none is dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pubqueue.core.decision import (
    Bury,
    Change,
    Decision,
    Done,
    EndSubscription,
    Forget,
    Notice,
    Release,
    Ripen,
    SetAvailable,
    Unlocked,
)
from pubqueue.core.lifecycle import backoff, exhausted, waiting
from pubqueue.core.model import bare
from pubqueue.core.settle import release

if TYPE_CHECKING:
    from pubqueue.core.model import Item, Jid, Millis, Node, NodeName, Subscription

TIMED_OUT: Final = "the lock timed out"
WORKER_LOST: Final = "the worker went away"
TOO_OLD: Final = "the time to live ended"


@dataclass(frozen=True, slots=True)
class Tomb:
    """The dead-letter node of an item: whether it is there, and whether it has the id already."""

    name: NodeName
    exists: bool
    taken: bool


@dataclass(frozen=True, slots=True)
class Case:
    """An item with the node that it is in, and the place for it should it die."""

    item: Item
    node: Node
    tomb: Tomb | None = None


@dataclass(frozen=True, slots=True)
class Expire:
    """Do what the clock demands."""


@dataclass(frozen=True, slots=True)
class ExpireFacts:
    """What has run out by `now`: pauses in which nodes, locks, lives of items that nobody holds."""

    now: Millis
    ripe: tuple[NodeName, ...]
    locks: tuple[Case, ...]
    lives: tuple[Case, ...]


@dataclass(frozen=True, slots=True)
class Leave:
    """A full JID has become unavailable; `last` says that no other resource of it is known."""

    jid: Jid
    last: bool


@dataclass(frozen=True, slots=True)
class LeaveFacts:
    """What the leaver holds and subscribes to, each with its node."""

    now: Millis
    held: tuple[Case, ...]
    subscriptions: tuple[tuple[Subscription, Node], ...]


@dataclass(frozen=True, slots=True)
class Return:
    """A delivery came back or could not be sent. `gone` says that the address is no more."""

    to: Jid
    seq: int
    token: int
    gone: bool


@dataclass(frozen=True, slots=True)
class ReturnFacts:
    """The item, if it is still held under that very token, and the addressee's subscription."""

    now: Millis
    case: Case | None
    subscription: Subscription | None


def expire(_request: Expire, facts: ExpireFacts) -> Decision:
    """End what has run out. Old holders hear of it (XEP-0254 4: send an unlock notification)."""
    changes: list[Change] = [Ripen(node, facts.now) for node in facts.ripe]
    changes.append(Forget(facts.now))
    notices: list[Notice] = []
    for case in facts.locks:
        changes.append(fail(case, facts.now, TIMED_OUT))
        if case.item.holder is not None:
            notices.append(Unlocked(case.item.holder, case.item.node, (case.item.id,)))
    changes += [bury(case, facts.now, TOO_OLD, failed=case.item.failed) for case in facts.lives]
    return Decision(Done(), tuple(changes), tuple(notices))


def leave(_request: Leave, facts: LeaveFacts) -> Decision:
    """Free what the leaver holds and end its subscriptions; it is not told, for it is gone."""
    changes: list[Change] = [fail(case, facts.now, WORKER_LOST) for case in facts.held]
    for subscription, node in facts.subscriptions:
        if node.config.queueing and node.config.unsubscribe_on_unavailable:
            changes.append(EndSubscription(subscription.node, subscription.jid))
        elif node.config.queueing:
            changes.append(SetAvailable(subscription.node, subscription.jid, available=False))
    return Decision(Done(), tuple(changes))


def bounce(request: Return, facts: ReturnFacts) -> Decision:
    """Free an item whose delivery came back: nobody's fault (XEP-0060 12.4)."""
    changes: list[Change] = []
    if facts.case is not None and facts.case.item.holder in {request.to, bare(request.to)}:
        changes.append(release(facts.case.item, facts.case.node, facts.now))
    if request.gone and facts.subscription is not None:
        changes.append(EndSubscription(facts.subscription.node, facts.subscription.jid))
    return Decision(Done(), tuple(changes))


def fail(case: Case, now: Millis, reason: str) -> Change:
    """End a lock with blame: others get the item at once, then later and later, then it is dead."""
    item, node = case.item, case.node
    failed = item.failed + 1
    if exhausted(item, node.config):
        return bury(case, now, reason, failed=failed)
    state, due = waiting(now, backoff(node.config, failed - 1))
    return Release(item, state, due, failed, item.released)


def bury(case: Case, now: Millis, reason: str, *, failed: int) -> Bury:
    """End an item's life: in the dead-letter node if it is there and has room for the id."""
    tomb = case.tomb
    usable = tomb is not None and tomb.exists and not tomb.taken and tomb.name != case.item.node
    return Bury(case.item, now, reason, failed, tomb.name if tomb and usable else None)
