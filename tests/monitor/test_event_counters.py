"""What is counted of each change, and that nothing which happens to items is left out by accident."""

from harness.batches.facts import ANN, BOB, BOSS, ETL, JOBS, NOW, draft, held, queue, waiting, who
from msgspec.structs import replace

from pubqueue.model import changes as c
from pubqueue.model import transactions as t
from pubqueue.model.entities import Jid, NodeName, State
from pubqueue.model.records import EventKind
from pubqueue.model.waits import Came, Wait
from pubqueue.monitor.event_counters import COUNTED, ItemEvent, Why, operator_events
from pubqueue.rules.event_log import EVENTS
from pubqueue.rules.expire import Expire
from pubqueue.rules.presence import Bounce, Leave
from pubqueue.rules.settle import Outcome, Settle, Verb
from pubqueue.rules.unlock import FreeLocks

FREE, LOCKED = waiting(), held()
OTHER = NodeName("other")
ETL_ACCOUNT = Jid("etl@x")


def settle(verb=Verb.UNLOCK, by=ANN, **words):
    return Settle(who(by), JOBS, (LOCKED.id,), verb, **words)


def released(item=LOCKED, *, failed):
    return c.Release(item, State.QUEUED, None, failed=item.failed + failed, released=0)


def dead(item, *, failed=0):
    return c.GiveUp(item, NOW, "its worker's own words", item.failed + failed)


COMMITTED = (
    t.CommittedNode(JOBS, queueing=True, added=2, replaced=1, left=4),
    t.CommittedNode(OTHER, queueing=False, added=3, replaced=0, left=0),
)


def commit(nodes):
    return t.Commit("app", ETL_ACCOUNT, 1, NOW, nodes, 6, 9, t.NO_TOTALS)


NEW = c.AddItem(JOBS, draft("i1"), ETL_ACCOUNT, NOW, State.QUEUED, None, None)
CAME = Came("s1", "yes", "{}", "boss@x", NOW)

TABLE = [
    (None, NEW, [(JOBS, ItemEvent.PUBLISHED, Why.NONE, 1)]),
    (None, c.ReplacePayload(FREE, b"<new/>", BOB), [(JOBS, ItemEvent.PUBLISHED, Why.NONE, 1)]),
    (settle(Verb.RETRACT), c.RemoveItem(LOCKED), [(JOBS, ItemEvent.COMPLETED, Why.NONE, 1)]),
    (
        settle(Verb.RETRACT, by=BOSS),
        c.RemoveItem(LOCKED),
        [(JOBS, ItemEvent.RETRACTED, Why.NONE, 1)],
    ),
    (Expire(), c.RemoveItem(FREE), [(JOBS, ItemEvent.RETRACTED, Why.NONE, 1)]),
    (None, c.PurgeNode(JOBS, 7), [(JOBS, ItemEvent.PURGED, Why.NONE, 7)]),
    (settle(), released(failed=0), [(JOBS, ItemEvent.RELEASED, Why.REPORTED, 1)]),
    (
        settle(outcome=Outcome.FAILED),
        released(failed=1),
        [(JOBS, ItemEvent.FAILED, Why.REPORTED, 1)],
    ),
    (Expire(), released(failed=1), [(JOBS, ItemEvent.FAILED, Why.TIMED_OUT, 1)]),
    (Leave(ANN), released(failed=1), [(JOBS, ItemEvent.FAILED, Why.WORKER_LOST, 1)]),
    (
        Bounce(ANN, 1, 1, gone=False),
        released(failed=0),
        [(JOBS, ItemEvent.RELEASED, Why.BOUNCED, 1)],
    ),
    (
        FreeLocks(who(BOSS), JOBS, ()),
        released(failed=0),
        [(JOBS, ItemEvent.RELEASED, Why.OTHER, 1)],
    ),
    (
        settle(outcome=Outcome.REJECT),
        dead(LOCKED, failed=1),
        [(JOBS, ItemEvent.DEAD, Why.REJECTED, 1)],
    ),
    (
        Expire(),
        dead(LOCKED, failed=1),
        [(JOBS, ItemEvent.FAILED, Why.TIMED_OUT, 1), (JOBS, ItemEvent.DEAD, Why.TIMED_OUT, 1)],
    ),
    (Expire(), dead(FREE), [(JOBS, ItemEvent.DEAD, Why.TOO_OLD, 1)]),
    (None, c.Revive(FREE, OTHER), [(OTHER, ItemEvent.REDRIVEN, Why.NONE, 1)]),
    (
        None,
        commit(COMMITTED),
        [(JOBS, ItemEvent.PUBLISHED, Why.NONE, 3), (OTHER, ItemEvent.PUBLISHED, Why.NONE, 3)],
    ),
    (None, commit(()), [("", ItemEvent.PUBLISHED, Why.NONE, 6)]),
    (None, c.Hold(LOCKED, Wait(("yes",))), [(JOBS, ItemEvent.HELD, Why.NONE, 1)]),
    (
        None,
        c.Hold(LOCKED, Wait(("yes",), came=(CAME,))),
        [(JOBS, ItemEvent.HELD, Why.NONE, 1), (JOBS, ItemEvent.WOKEN, Why.NONE, 1)],
    ),
    (None, c.TakeSignal(FREE, CAME), []),
    (None, c.TakeSignal(FREE, CAME, wakes=True), [(JOBS, ItemEvent.WOKEN, Why.NONE, 1)]),
    (None, c.Wake(FREE), [(JOBS, ItemEvent.WOKEN, Why.NONE, 1)]),
    (None, c.CreateNode(queue()), []),
    (None, c.Extend(LOCKED, NOW), []),
]


def test_a_change_is_counted_as_what_it_is():
    found = [(asked, change, list(operator_events(asked, [change]))) for asked, change, _ in TABLE]
    assert found == TABLE


def test_what_has_events_is_counted_but_for_deliveries_which_are_counted_as_they_leave():
    """So a change that is new to the event log has to be thought of here."""
    with_events = {kind for kind, tells in EVENTS.items() if tells.__name__ != "_nothing"}
    assert with_events - set(COUNTED) == {c.Lock}
    assert EventKind.DELIVERED.value not in set(ItemEvent)


def test_the_words_of_workers_are_no_label():
    item = replace(LOCKED, failed=3)
    for asked in (settle(outcome=Outcome.REJECT, reason="secret"), Expire(), Leave(ANN)):
        whys = {why for _, _, why, _ in operator_events(asked, [dead(item, failed=1)])}
        assert whys <= set(Why)


def test_several_changes_are_notified_in_their_order():
    found = operator_events(who(ETL), [NEW, c.PurgeNode(JOBS, 1), NEW])
    assert [kind for _, kind, _, _ in found] == [
        ItemEvent.PUBLISHED,
        ItemEvent.PURGED,
        ItemEvent.PUBLISHED,
    ]
