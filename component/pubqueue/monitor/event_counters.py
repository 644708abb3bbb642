"""What is counted in a committed batch, by node and kind: tables for changes and for requests."""

from __future__ import annotations

from enum import StrEnum, unique
from typing import TYPE_CHECKING, Any, Final

from pubqueue.model import changes as c
from pubqueue.model import transactions as t
from pubqueue.rules.deliveries import GiveUpUnanswered
from pubqueue.rules.expire import Expire
from pubqueue.rules.presence import Bounce, FreeConnections, FreeLeft, Leave
from pubqueue.rules.settle import Outcome, Settle, finishes
from pubqueue.rules.unlock import Touch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pubqueue.model.changes import Change


@unique
class ItemEvent(StrEnum):
    """What happened to items."""

    PUBLISHED = "published"
    COMPLETED = "completed"
    RETRACTED = "retracted"
    PURGED = "purged"
    RELEASED = "released"
    FAILED = "failed"
    DEAD = "dead"
    REDRIVEN = "redriven"
    HELD = "held"
    """Their workers let them wait for a signal, or for a time."""
    WOKEN = "woken"
    LEFT_OUT = "left-out"
    """A queue could not take what the node that feeds it got (`rules.feed`)."""


@unique
class Why(StrEnum):
    """Why a lock ended without a success, or why an item died; the reasons that workers give are not among them."""

    NONE = ""
    REPORTED = "reported"
    """The worker reported a failure."""
    REJECTED = "rejected"
    """The worker rejected the item as impossible to process."""
    TIMED_OUT = "timed-out"
    """The lock expired."""
    WORKER_LOST = "worker-lost"
    """The worker disappeared without releasing its items."""
    BOUNCED = "bounced"
    """The delivery bounced."""
    TOO_OLD = "too-old"
    """The item's time to live expired."""
    OTHER = "other"
    """An operator or a setting ended the lock."""


OperatorEvent = tuple[str, ItemEvent, Why, int]
"""The node ("": several nodes), what happened there, why, and to how many items."""


def operator_events(asked: object, changes: Iterable[Change]) -> Iterator[OperatorEvent]:
    """Yield what these changes, made for that request, mean to an operator."""
    for change in changes:
        found = COUNTED.get(type(change))
        if found is not None:
            yield from found(asked, change)


def _added(_asked: object, change: c.AddItem) -> Iterator[OperatorEvent]:
    yield change.node, ItemEvent.PUBLISHED, Why.NONE, 1
    if change.wait is not None:
        yield change.node, ItemEvent.HELD, Why.NONE, 1


def _replaced(_asked: object, change: c.ReplacePayload) -> Iterator[OperatorEvent]:
    yield change.item.node, ItemEvent.PUBLISHED, Why.NONE, 1


def _removed(asked: object, change: c.RemoveItem) -> Iterator[OperatorEvent]:
    done = type(asked) is Settle and finishes(asked, change.item)
    yield change.item.node, ItemEvent.COMPLETED if done else ItemEvent.RETRACTED, Why.NONE, 1


def _purged(_asked: object, change: c.PurgeNode) -> Iterator[OperatorEvent]:
    yield change.node, ItemEvent.PURGED, Why.NONE, change.items


def _released(asked: object, change: c.Release) -> Iterator[OperatorEvent]:
    failed = change.failed > change.item.failed
    yield change.item.node, ItemEvent.FAILED if failed else ItemEvent.RELEASED, _why(asked), 1


def _held(_asked: object, change: c.Hold) -> Iterator[OperatorEvent]:
    yield change.item.node, ItemEvent.HELD, Why.NONE, 1
    if change.wait.is_heard:
        yield change.item.node, ItemEvent.WOKEN, Why.NONE, 1


def _woken(_asked: object, change: c.TakeSignal | c.Wake | c.Count) -> Iterator[OperatorEvent]:
    if isinstance(change, c.Wake) or change.wakes:
        yield change.item.node, ItemEvent.WOKEN, Why.NONE, 1


def _gave_up(asked: object, change: c.GiveUp) -> Iterator[OperatorEvent]:
    item, why = change.item, _why(asked)
    if isinstance(asked, Expire) and item.holder is None:
        why = Why.TOO_OLD
    if change.failed > item.failed and why is not Why.REJECTED:
        yield item.node, ItemEvent.FAILED, why, 1
    yield item.node, ItemEvent.DEAD, why, 1
    for copy in change.copies:
        yield copy.node, ItemEvent.PUBLISHED, Why.NONE, 1
    for missed in () if change.onward is None else change.onward.left_out:
        yield from _left_out(asked, missed)


def _left_out(_asked: object, change: c.NoteLeftOut) -> Iterator[OperatorEvent]:
    yield change.node, ItemEvent.LEFT_OUT, Why.NONE, change.items


def _revived(_asked: object, change: c.Revive) -> Iterator[OperatorEvent]:
    yield change.to, ItemEvent.REDRIVEN, Why.NONE, 1


def _shown(_asked: object, change: t.Commit) -> Iterator[OperatorEvent]:
    for one in change.nodes:
        yield one.node, ItemEvent.PUBLISHED, Why.NONE, one.added + one.replaced
    if not change.nodes:  # it is sent to its nodes in slices
        yield "", ItemEvent.PUBLISHED, Why.NONE, change.items


def _why(asked: object) -> Why:
    match asked:
        case Settle(outcome=Outcome.REJECT):
            return Why.REJECTED
        case Settle() | Touch():
            return Why.REPORTED
        case Expire():
            return Why.TIMED_OUT
        case Leave() | FreeLeft() | FreeConnections():
            return Why.WORKER_LOST
        case Bounce() | GiveUpUnanswered():
            return Why.BOUNCED
        case _:
            return Why.OTHER


COUNTED: Final[dict[type, Callable[[Any, Any], Iterator[OperatorEvent]]]] = {
    c.AddItem: _added,
    c.ReplacePayload: _replaced,
    c.RemoveItem: _removed,
    c.PurgeNode: _purged,
    c.Release: _released,
    c.Hold: _held,
    c.TakeSignal: _woken,
    c.Wake: _woken,
    c.Count: _woken,
    c.GiveUp: _gave_up,
    c.NoteLeftOut: _left_out,
    c.Revive: _revived,
    t.Commit: _shown,
}
"""Changes that are counted; all others do not concern items, or are visible in the numbers of waiting items."""
