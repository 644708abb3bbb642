"""The entries of a change in the event log of a node: a table over all changes, and over requesters.

An item's life reads: published, then any number of times delivered and (unlocked, expired, or held and woken),
finally completed, or retracted, or purged with all others, or dead; requeued leads from dead, and
from completed or retracted if the queue keeps done items, back to the queue. A move between nodes is
recorded in both: in the source with `to`, in the destination with `origin`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from pubqueue.model import changes
from pubqueue.model import transactions as t
from pubqueue.model.entities import Millis, State
from pubqueue.model.records import Event, EventKind, LogEntry, PublishedByCommit
from pubqueue.model.waits import Woken
from pubqueue.rules.deliveries import GiveUpUnanswered
from pubqueue.rules.expire import Expire
from pubqueue.rules.presence import WORKER_LOST, Bounce, FreeConnections, FreeLeft, Leave
from pubqueue.rules.settle import UNEXPLAINED, Outcome, Settle, finishes, last_holder
from pubqueue.rules.trimming import DropDead
from pubqueue.rules.unlock import Dismiss, FreeHeld, FreeLocks

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.model.changes import Change
    from pubqueue.model.entities import Item
    from pubqueue.model.waits import Wait


BY_OWNER: Final = "an owner ended the lock"
CAME_BACK: Final = "the delivery came back"
RECALLED: Final = "an earlier item of its group came back"
REPLACED: Final = "replaced"
MEMBERS: Final = "(members)"
"""Stands beside the names of signals for the members of a join; no signal has this name by chance."""
OUTLIVED: Final = "dead for longer than it is kept, or too many dead items"


def _nothing(_asked: object, _change: Change, _now: Millis) -> tuple[LogEntry, ...]:
    return ()


def _of(kind: EventKind, item: Item, now: Millis, detail: str = "") -> Event:
    age = Millis(max(0, now - item.published))
    locked = item.holder is not None and item.taken is not None
    held = Millis(max(0, now - item.taken)) if locked and item.taken is not None else None
    return Event(
        *(kind, item.node, item.id, item.acquired, item.holder, item.publisher, age, held),
        detail=detail,
    )


def _added(_asked: object, change: changes.AddItem, _now: Millis) -> tuple[LogEntry, ...]:
    who, item = change.publisher, change.draft.id
    event = Event(EventKind.PUBLISHED, change.node, item, 0, None, who, Millis(0))
    if change.wait is None:
        return (event,)
    return event, replace(event, kind=EventKind.HELD, detail=awaited(change.wait))


def _replaced(_asked: object, change: changes.ReplacePayload, now: Millis) -> tuple[LogEntry, ...]:
    """Return two events: the old work is withdrawn and the new is published, so that counts add up."""
    item = change.item
    after = replace(item, publisher=change.publisher, published=now)
    return (
        _of(EventKind.RETRACTED, item, now, REPLACED),
        _of(EventKind.PUBLISHED, after, now, REPLACED),
    )


def _locked(_asked: object, change: changes.Lock, now: Millis) -> tuple[LogEntry, ...]:
    item = change.item
    age = Millis(max(0, now - item.published))
    who = change.holder, item.publisher
    return (Event(EventKind.DELIVERED, item.node, item.id, item.acquired + 1, *who, age),)


def _released(asked: object, change: changes.Release, now: Millis) -> tuple[LogEntry, ...]:
    if asked is None and change.is_recalled:
        return (_of(EventKind.UNLOCKED, change.item, now, RECALLED),)
    return (_end(asked, change.item, now),)


def _end(asked: object, item: Item, now: Millis) -> Event:
    """Return how a lock ended, which depends on the request that ended it."""
    match asked:
        case Expire():
            return _of(EventKind.EXPIRED, item, now)
        case Settle(outcome=Outcome.RELEASE):
            return _of(EventKind.UNLOCKED, item, now, asked.reason)
        case Settle():
            return _of(EventKind.UNLOCKED, item, now, asked.reason or UNEXPLAINED)
        case Leave() | FreeLeft() | FreeConnections():
            return _of(EventKind.UNLOCKED, item, now, WORKER_LOST)
        case FreeLocks() | Dismiss() | FreeHeld():
            return _of(EventKind.UNLOCKED, item, now, BY_OWNER)
        case Bounce() | GiveUpUnanswered():
            return _of(EventKind.UNLOCKED, item, now, CAME_BACK)
        case _:
            return _of(EventKind.UNLOCKED, item, now)


def _held(_asked: object, change: changes.Hold, now: Millis) -> tuple[LogEntry, ...]:
    held = _of(EventKind.HELD, change.item, now, awaited(change.wait))
    if not change.wait.is_heard:
        return (held,)
    return held, _of(EventKind.WOKEN, replace(change.item, holder=None), now, Woken.SIGNAL.value)


def _signaled(_asked: object, change: changes.TakeSignal, now: Millis) -> tuple[LogEntry, ...]:
    signaled = _of(EventKind.SIGNALED, replace(change.item, holder=None), now, change.signal.name)
    if not change.wakes:
        return (signaled,)
    return signaled, _of(EventKind.WOKEN, change.item, now, Woken.SIGNAL.value)


def _woken(_asked: object, change: changes.Wake, now: Millis) -> tuple[LogEntry, ...]:
    return (_of(EventKind.WOKEN, change.item, now, Woken.TIME.value),)


def _counted(_asked: object, change: changes.Count, now: Millis) -> tuple[LogEntry, ...]:
    if not change.wakes:
        return ()
    return (_of(EventKind.WOKEN, change.item, now, Woken.COUNT.value),)


def awaited(wait: Wait) -> str:
    """Return in words what an item waits for."""
    members = () if wait.join is None else (MEMBERS,)
    return ", ".join((*wait.signals, *members))


def _gave_up(asked: object, change: changes.GiveUp, now: Millis) -> tuple[LogEntry, ...]:
    ends = () if change.item.holder is None else (_end(asked, change.item, now),)
    dead = replace(change.item, failed=change.failed)
    here = replace(_of(EventKind.DEAD, dead, now, change.reason), to=change.to)
    if change.to is None:
        return (*ends, here)
    there = replace(here, node=change.to, origin=change.item.node, to=None)
    return (*ends, here, there)


def _revived(_asked: object, change: changes.Revive, now: Millis) -> tuple[LogEntry, ...]:
    here = _of(EventKind.REQUEUED, change.item, now)
    if change.to == change.item.node:
        return (here,)
    there = replace(here, node=change.to, origin=change.item.node)
    return replace(here, to=change.to), there


def _removed(asked: object, change: changes.RemoveItem, now: Millis) -> tuple[LogEntry, ...]:
    if change.item.state is State.DONE:  # this was logged when it was done
        return ()
    done = isinstance(asked, Settle) and finishes(asked, change.item)
    if not done:
        why = OUTLIVED if isinstance(asked, DropDead) else ""
        return (_of(EventKind.RETRACTED, change.item, now, why),)
    item = change.item
    if item.holder is None:  # a late answer has no lock
        item = replace(item, holder=last_holder(item))
    return (_of(EventKind.COMPLETED, item, now),)


def _purged(_asked: object, change: changes.PurgeNode, _now: Millis) -> tuple[LogEntry, ...]:
    return (Event(EventKind.PURGED, change.node, detail=str(change.items)),)


def _committed(_asked: object, change: t.Commit, _now: Millis) -> tuple[LogEntry, ...]:
    return tuple(PublishedByCommit(o.node, o.queueing, change.owner) for o in change.nodes)


# fmt: off
EVENTS: Final[dict[type, Callable[[Any, Any, Millis], tuple[LogEntry, ...]]]] = {
    changes.CreateNode:      _nothing,
    changes.ConfigureNode:   _nothing,
    changes.NoteLeftOut:     _nothing,   # they were never in the queue
    changes.DeleteNode:      _nothing,   # its log goes with it
    changes.PurgeNode:       _purged,
    changes.DropFormer:        _nothing,
    changes.BeginReview:     _nothing,
    changes.EndReview:       _nothing,
    changes.BeginTrim:       _nothing,
    changes.EndTrim:         _nothing,   # each item has an event of its own
    changes.EndSubscriptions: _nothing,
    changes.SetAffiliation:  _nothing,
    changes.AddSubscription: _nothing,
    changes.AddAnother:      _nothing,
    changes.SetWindow:       _nothing,
    changes.SetLockTimeout:  _nothing,
    changes.SetLevel:        _nothing,
    changes.SetTerms:        _nothing,
    changes.Approve:         _nothing,
    changes.SetAvailable:    _nothing,
    changes.SetQuiet:        _nothing,   # the queue's items are as they were
    changes.EndSubscription: _nothing,   # locks outlive it
    changes.NoteUnanswered:     _nothing,
    changes.NoteResource:    _nothing,
    changes.NotePresence:    _nothing,
    changes.NoteActivity:          _nothing,
    changes.NoteAble:        _nothing,
    changes.ForgetResource:  _nothing,
    changes.AddItem:         _added,
    changes.ReplacePayload:  _replaced,
    changes.Lock:            _locked,
    changes.Release:         _released,
    changes.Hold:            _held,
    changes.TakeSignal:      _signaled,
    changes.Wake:            _woken,
    changes.Count:           _counted,   # each member has events of its own
    changes.CloseJoin:       _nothing,
    changes.Postpone:        _nothing,   # it waits as before, only longer
    changes.Extend:          _nothing,
    changes.SetLife:         _nothing,
    changes.SetTimes:        _nothing,   # nothing happened to it
    changes.Revive:          _revived,
    changes.Ripen:           _nothing,
    changes.TakeTurn:        _nothing,   # in listings of the queue it waits as before
    changes.CallGroups:      _nothing,
    changes.NoteSums:        _nothing,
    changes.Recount:         _nothing,
    changes.OpenWindow:      _nothing,
    changes.SpendRate:       _nothing,
    changes.PutRow:          _nothing,
    changes.DropRow:         _nothing,
    changes.Forget:          _nothing,
    changes.ForgetEvents:    _nothing,
    changes.NoteSamples:     _nothing,
    changes.GiveUp:          _gave_up,
    changes.RemoveItem:      _removed,
    t.Stage:           _nothing,   # it is not visible yet
    t.SetAside:        _nothing,   # nor that
    t.Commit:          _committed,
    t.Moved:           _nothing,   # each item has an event of its own
    t.Abort:           _nothing,
    t.Restore:         _nothing,
    t.Sweep:           _nothing,
}
# fmt: on
