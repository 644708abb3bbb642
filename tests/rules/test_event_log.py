"""The event log: every change, and its requester."""

from typing import get_args

import pytest
from harness.batches.facts import (
    ANN,
    BOB,
    BOSS,
    ETL,
    JOBS,
    NOW,
    after,
    draft,
    held,
    queue,
    waiting,
    who,
    window,
)
from msgspec.structs import replace

from pubqueue.model import changes as c
from pubqueue.model import transactions as t
from pubqueue.model.entities import Affiliation, ItemId, Jid, Level, NodeName, State, Terms
from pubqueue.model.joins import Join
from pubqueue.model.records import Event, EventKind, PublishedByCommit, Settled
from pubqueue.model.waits import Came, Wait
from pubqueue.rules.event_log import CAME_BACK, EVENTS, REPLACED
from pubqueue.rules.expire import Expire
from pubqueue.rules.presence import WORKER_LOST, Bounce, Leave
from pubqueue.rules.settle import UNEXPLAINED, Outcome, Settle, Verb

DEAD_LETTERS, ETL_ACCOUNT = NodeName("dead-letters"), Jid("etl@x")
LATER = after(5)
FREE = waiting(acquired=2)
LOCKED = held(acquired=3, taken=after(2))
SPAN = {"age": 5000, "held": 3000}


def reported(kind, item=FREE, **facts):
    known = {"attempt": item.acquired, "publisher": item.publisher, "age": 5000} | facts
    return Event(kind, item.node, item.id, **known)


def events_of(asked, changes, now):
    """Return the entries for changes that the request `asked` makes (None: a dispatch), in order."""
    return [entry for change in changes for entry in EVENTS[type(change)](asked, change, now)]


def of_lock(kind, **facts):
    return reported(kind, LOCKED, worker=ANN, **(SPAN | facts))


def settle(verb, by=ANN, **words):
    return Settle(who(by), JOBS, (LOCKED.id,), verb, **words)


FREED = c.Release(LOCKED, State.QUEUED, None, failed=0, released=1)
CAME = Came("s1", "yes", "{}", "boss@x", NOW)
STAGED = t.Stage(t.Mark("app", 1), ETL_ACCOUNT, JOBS, (), NOW, NOW)
OUTCOMES = (
    t.CommittedNode(JOBS, queueing=True, added=2, replaced=0, left=0),
    t.CommittedNode(DEAD_LETTERS, queueing=False, added=0, replaced=1, left=0),
)
COMMITTED = t.Commit("app", ETL_ACCOUNT, 1, NOW, OUTCOMES, 3, 9, t.NO_TOTALS)
NEW = c.AddItem(JOBS, draft("i1"), ETL_ACCOUNT, LATER, State.QUEUED, None, None)

# The table again: every change with the entries that it makes when nobody in particular asked for it.
TABLE = [
    (c.CreateNode(queue()), []),
    (c.ConfigureNode(JOBS, queue().config), []),
    (c.NoteLeftOut(JOBS, 1, NOW, "full"), []),
    (c.DeleteNode(JOBS), []),
    (c.DropFormer(JOBS, None), []),
    (c.BeginReview(JOBS), []),
    (c.EndReview(JOBS), []),
    (c.EndSubscriptions(JOBS, (ANN,)), []),
    (c.PurgeNode(JOBS, 7), [Event(EventKind.PURGED, JOBS, detail="7")]),
    (c.SetAffiliation(JOBS, BOSS, Affiliation.OWNER), []),
    (c.AddSubscription(window()), []),
    (c.AddAnother(JOBS, ANN, Terms("two")), []),
    (c.SetWindow(JOBS, ANN, 3), []),
    (c.SetLockTimeout(JOBS, ANN, 9), []),
    (c.SetLevel(JOBS, ANN, Level.ASSURED), []),
    (c.SetTerms(JOBS, ANN, deliver=False, expire=None, remind=None, temporary=True), []),
    (c.Approve(JOBS, ANN), []),
    (c.SetAvailable(JOBS, ANN, available=False), []),
    (c.SetQuiet(JOBS, ANN, quiet=True), []),
    (c.EndSubscription(JOBS, ANN), []),
    (c.NoteUnanswered(JOBS, ANN, 1), []),
    (c.NoteResource(ANN), []),
    (c.NoteActivity(ANN), []),
    (c.NotePresence(ANN), []),
    (c.ForgetResource(ANN), []),
    (NEW, [Event(EventKind.PUBLISHED, JOBS, ItemId("i1"), 0, publisher=ETL_ACCOUNT, age=0)]),
    (
        c.ReplacePayload(FREE, b"<new/>", BOB),
        [
            reported(EventKind.RETRACTED, detail=REPLACED),
            reported(EventKind.PUBLISHED, age=0, publisher=BOB, detail=REPLACED),
        ],
    ),
    (c.Lock(FREE, BOB, 9, after(9), LATER), [reported(EventKind.DELIVERED, attempt=3, worker=BOB)]),
    (FREED, [of_lock(EventKind.UNLOCKED)]),
    (c.Hold(LOCKED, Wait(("yes", "no"))), [of_lock(EventKind.HELD, detail="yes, no")]),
    (
        c.Hold(LOCKED, Wait(("yes",), came=(CAME,))),
        [of_lock(EventKind.HELD, detail="yes"), reported(EventKind.WOKEN, LOCKED, detail="signal")],
    ),
    (c.TakeSignal(FREE, CAME), [reported(EventKind.SIGNALED, detail="yes")]),
    (
        c.TakeSignal(FREE, CAME, wakes=True),
        [
            reported(EventKind.SIGNALED, detail="yes"),
            reported(EventKind.WOKEN, detail="signal"),
        ],
    ),
    (c.Wake(FREE), [reported(EventKind.WOKEN, detail="time")]),
    (
        replace(NEW, state=State.HELD, wait=Wait(("yes",), join=Join())),
        [
            Event(EventKind.PUBLISHED, JOBS, ItemId("i1"), 0, publisher=ETL_ACCOUNT, age=0),
            Event(
                *(EventKind.HELD, JOBS, ItemId("i1"), 0),
                publisher=ETL_ACCOUNT,
                age=0,
                detail="yes, (members)",
            ),
        ],
    ),
    (c.Count(FREE, Join(1)), []),
    (c.Count(FREE, Join(1), wakes=True), [reported(EventKind.WOKEN, detail="count")]),
    (c.CloseJoin(FREE), []),
    (c.Postpone(FREE, after(9)), []),
    (c.Extend(LOCKED, after(9)), []),
    (c.SetLife(LOCKED, after(9)), []),
    (c.SetTimes(LOCKED, NOW, NOW, None, None, after(9)), []),
    (c.BeginTrim(JOBS), []),
    (c.EndTrim(JOBS), []),
    (c.Revive(FREE, JOBS), [reported(EventKind.REQUEUED)]),
    (
        c.Revive(FREE, DEAD_LETTERS),
        [
            reported(EventKind.REQUEUED, to=DEAD_LETTERS),
            replace(reported(EventKind.REQUEUED, origin=JOBS), node=DEAD_LETTERS),
        ],
    ),
    (c.Ripen(waiting(state=State.DELAYED, due=NOW)), []),
    (c.TakeTurn(replace(FREE, group="g"), 9), []),
    (c.CallGroups(JOBS, ("g",)), []),
    (c.Recount(JOBS, ANN), []),
    (c.OpenWindow(JOBS, 1, who(ANN), 1, 0), []),
    (c.SpendRate(JOBS, 9), []),
    (c.Forget(NOW, 9), []),
    (c.DropRow(Settled, 9), []),
    (c.PutRow(Settled(9, b"whose", "retract", NOW)), []),
    (c.NoteAble(ANN, able=True), []),
    (c.ForgetEvents(7), []),
    (c.NoteSamples((), NOW, 9), []),
    (c.NoteSums(()), []),
    (c.GiveUp(FREE, LATER, "too old", 0), [reported(EventKind.DEAD, detail="too old")]),
    (
        c.GiveUp(LOCKED, LATER, "no seat", 1),
        [of_lock(EventKind.UNLOCKED), of_lock(EventKind.DEAD, detail="no seat")],
    ),
    (
        c.GiveUp(FREE, LATER, "too old", 0, DEAD_LETTERS),
        [
            reported(EventKind.DEAD, detail="too old", to=DEAD_LETTERS),
            replace(reported(EventKind.DEAD, detail="too old", origin=JOBS), node=DEAD_LETTERS),
        ],
    ),
    (c.RemoveItem(FREE), [reported(EventKind.RETRACTED)]),
    (c.RemoveItem(LOCKED), [of_lock(EventKind.RETRACTED)]),
    (c.RemoveItem(LOCKED, done_at=LATER), [of_lock(EventKind.RETRACTED)]),
    (c.RemoveItem(waiting(state=State.DONE, taken=NOW)), []),
    (STAGED, []),
    (
        COMMITTED,
        [
            PublishedByCommit(JOBS, queueing=True, publisher=ETL_ACCOUNT),
            PublishedByCommit(DEAD_LETTERS, queueing=False, publisher=ETL_ACCOUNT),
        ],
    ),
    (t.Moved("app", 1, ((0, 0, 9),)), []),
    (t.Abort("app", 1), []),
    (t.Restore(t.App("app", ETL_ACCOUNT), 1), []),
    (t.SetAside(None, NOW), []),
    (t.Sweep(NOW, 9), []),
]


def test_the_table_is_about_every_change():
    changes = set(get_args(c.Change))
    assert set(EVENTS) == changes
    assert {type(change) for change, _ in TABLE} == changes


def test_a_change_is_written_like_this():
    assert [(change, events_of(None, [change], LATER)) for change, _ in TABLE] == TABLE


ENDS = [
    (Expire(), EventKind.EXPIRED, ""),
    (Leave(ANN), EventKind.UNLOCKED, WORKER_LOST),
    (Bounce(ANN, 1, 7, gone=False), EventKind.UNLOCKED, CAME_BACK),
    (settle(Verb.UNLOCK), EventKind.UNLOCKED, ""),
    (settle(Verb.UNLOCK, reason="no handler"), EventKind.UNLOCKED, "no handler"),
    (settle(Verb.UNLOCK, outcome=Outcome.FAILED), EventKind.UNLOCKED, UNEXPLAINED),
    (settle(Verb.UNLOCK, outcome=Outcome.FAILED, reason="no seat"), EventKind.UNLOCKED, "no seat"),
]


@pytest.mark.parametrize(("asked", "kind", "detail"), ENDS)
def test_the_requester_knows_how_a_lock_ended(asked, kind, detail):
    assert events_of(asked, [FREED], LATER) == [of_lock(kind, detail=detail)]
    dead = c.GiveUp(LOCKED, LATER, "worn out", 1)
    ends = [of_lock(kind, detail=detail), of_lock(EventKind.DEAD, detail="worn out")]
    assert events_of(asked, [dead], LATER) == ends


@pytest.mark.parametrize(
    ("item", "by", "kind"),
    [
        (LOCKED, ANN, EventKind.COMPLETED),
        (replace(LOCKED, holder=Jid("ann@x")), ANN, EventKind.COMPLETED),
        (LOCKED, BOSS, EventKind.RETRACTED),
        (LOCKED, ETL, EventKind.RETRACTED),
        (FREE, ANN, EventKind.RETRACTED),
    ],
)
def test_only_its_holder_completes_an_item(item, by, kind):
    (event,) = events_of(settle(Verb.RETRACT, by), [c.RemoveItem(item)], LATER)
    assert event.kind is kind


def test_a_late_worker_completes_an_item_as_its_last_holder():
    free = replace(LOCKED, state=State.QUEUED, holder=None, deadline=None, avoid=ANN)
    asked = settle(Verb.RETRACT, ANN, token=free.token, late=True)
    assert events_of(asked, [c.RemoveItem(free)], LATER) == events_of(
        settle(Verb.RETRACT, ANN), [c.RemoveItem(LOCKED)], LATER
    )


def test_a_clock_set_back_makes_no_negative_spans():
    (event,) = events_of(Expire(), [FREED], after(-9))
    assert (event.age, event.held) == (0, 0)
