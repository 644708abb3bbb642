"""The effect of a change on an item, field by field; and that no change can meet a state that the table forbids."""

from typing import get_args

import pytest
from harness.batches.facts import (
    ANN,
    BOB,
    ETL,
    JOBS,
    NOW,
    after,
    draft,
    held,
    queue,
    waiting,
    window,
)
from msgspec.structs import replace

from pubqueue.model import after as a
from pubqueue.model import changes as c
from pubqueue.model import transactions as t
from pubqueue.model.after import GONE, NEXT, Transition, backoff, exhausted
from pubqueue.model.entities import (
    DeadLetter,
    Item,
    Jid,
    Millis,
    NodeName,
    State,
    account_of,
    seconds,
)
from pubqueue.model.joins import Join
from pubqueue.model.sums import sum_of
from pubqueue.model.waits import AtDeadline, Came, Wait, Woken

ELSEWHERE = NodeName("elsewhere")
FREE = waiting(7, priority=3, headers=(("a", "1"),), transaction=("app", 4))
LOCKED = held(7, taken=NOW, acquired=2, avoid=BOB)
FAILED = held(7, taken=NOW, acquired=2, failed=1, failure="no seat")
DEAD = waiting(
    7, state=State.DEAD, failed=3, failure="worn out", dead_letter=DeadLetter(9, NOW, "worn out")
)
AS_NEW = {
    "state": State.QUEUED,
    "due": None,
    "expires": None,
    "acquired": 0,
    "failed": 0,
    "released": 0,
    "holder": None,
    "deadline": None,
    "avoid": None,
    "aside": False,
    "taken": None,
    "failure": None,
}
NEW = sum_of("i7", b"<new/>", "", (("b", "2"),))
HOW = {"acquired": 2, "avoid": ANN, "due": NOW}
DONE = replace(LOCKED, **AS_NEW | {"state": State.DONE, "taken": after(3)} | HOW)
LED_PAST = replace(DONE, avoid=None, due=None)
CAME = Came("s1", "yes", "{}", "boss@x", 5)
WAIT = Wait(("yes",), 5, carry="[1]")
JOIN = waiting(7, state=State.HELD, due=after(9), wait=Wait(("yes",), join=Join(2, 0, 2)))
HELD = replace(FREE, state=State.HELD, due=after(9), wait=WAIT, size=3)

CHANGES = {
    "an item is added": (
        c.AddItem(
            JOBS,
            draft("i7", priority=3),
            account_of(ETL),
            NOW,
            State.DELAYED,
            after(5),
            after(9),
            seq=7,
        ),
        Item(
            7,
            JOBS,
            "i7",
            State.DELAYED,
            account_of(ETL),
            NOW,
            priority=3,
            due=after(5),
            expires=after(9),
            size=6,
            sum=sum_of("i7", draft("i7").payload),
        ),
    ),
    "it is locked": (
        c.Lock(replace(FREE, due=NOW, expires=after(99)), ANN, 12, after(60), after(1)),
        replace(
            FREE,
            expires=after(99),
            state=State.LOCKED,
            holder=ANN,
            token=12,
            deadline=after(60),
            taken=after(1),
            acquired=1,
        ),
    ),
    "an item put aside is locked": (
        c.Lock(replace(FREE, state=State.DELAYED, due=NOW, aside=True), ANN, 12, after(60), NOW),
        replace(
            FREE,
            state=State.LOCKED,
            holder=ANN,
            token=12,
            deadline=after(60),
            taken=NOW,
            acquired=1,
        ),
    ),
    "it is held": (
        c.Hold(
            replace(LOCKED, failed=1, failure="no seat", wait=Wait(came=(CAME,), seen=1), size=19),
            WAIT,
            after(9),
        ),
        replace(
            LOCKED,
            state=State.HELD,
            due=after(9),
            holder=None,
            deadline=None,
            avoid=None,
            wait=WAIT,
            size=9,
        ),
    ),
    "what it would wait for has come": (
        c.Hold(LOCKED, replace(WAIT, came=(CAME,)), after(9)),
        replace(
            LOCKED,
            state=State.QUEUED,
            holder=None,
            deadline=None,
            avoid=None,
            wait=replace(WAIT, came=(CAME,), woken=Woken.SIGNAL),
            size=16,
        ),
    ),
    "a signal wakes it": (
        c.TakeSignal(HELD, CAME, wakes=True),
        replace(
            HELD,
            state=State.QUEUED,
            due=None,
            wait=replace(WAIT, came=(CAME,), woken=Woken.SIGNAL),
            size=16,
        ),
    ),
    "a signal is kept with it": (
        c.TakeSignal(FREE, CAME),
        replace(FREE, wait=Wait(came=(CAME,)), size=13),
    ),
    "its time wakes it": (
        c.Wake(HELD),
        replace(HELD, state=State.QUEUED, due=None, wait=replace(WAIT, woken=Woken.TIME)),
    ),
    "what it was shown is over with its next hold": (
        c.Lock(replace(FREE, wait=Wait(came=(CAME,))), ANN, 12, after(60), NOW),
        replace(
            FREE,
            state=State.LOCKED,
            holder=ANN,
            token=12,
            deadline=after(60),
            taken=NOW,
            acquired=1,
            wait=Wait(came=(CAME,), seen=1),
        ),
    ),
    "it is held and dies": (
        c.GiveUp(HELD, after(1), "no answer", 0, number=9),
        replace(
            HELD,
            state=State.DEAD,
            due=None,
            wait=replace(WAIT, woken=Woken.TIME),
            dead_letter=DeadLetter(9, after(1), "no answer"),
        ),
    ),
    "what has come is not kept with what is done": (
        c.RemoveItem(replace(LOCKED, wait=WAIT, size=9), done_at=after(3)),
        replace(LED_PAST, size=6),
    ),
    "it is released": (
        c.Release(LOCKED, State.QUEUED, None, failed=0, released=1),
        replace(LOCKED, state=State.QUEUED, released=1, avoid=ANN, holder=None, deadline=None),
    ),
    "it fails and pauses": (
        c.Release(LOCKED, State.DELAYED, after(5), 1, 0, "no seat"),
        replace(
            LOCKED,
            state=State.DELAYED,
            due=after(5),
            failed=1,
            avoid=ANN,
            holder=None,
            deadline=None,
            failure="no seat",
        ),
    ),
    "who gives it back with a reason leaves that as its last error": (
        c.Release(LOCKED, State.QUEUED, None, 0, 1, "no handler for {x}mail"),
        replace(
            LOCKED,
            state=State.QUEUED,
            released=1,
            avoid=ANN,
            holder=None,
            deadline=None,
            failure="no handler for {x}mail",
        ),
    ),
    "who lets go of it later says nothing of its failure": (
        c.Release(FAILED, State.QUEUED, None, failed=1, released=1),
        replace(FAILED, state=State.QUEUED, released=1, avoid=ANN, holder=None, deadline=None),
    ),
    "it is locked after it has failed": (
        c.Lock(replace(FREE, failed=1, failure="no seat"), ANN, 12, after(60), NOW),
        replace(
            FREE,
            state=State.LOCKED,
            holder=ANN,
            token=12,
            deadline=after(60),
            taken=NOW,
            acquired=1,
            failed=1,
            failure="no seat",
        ),
    ),
    "its payload is replaced": (
        c.ReplacePayload(FREE, b"<new/>", Jid("eve@x"), (("b", "2"),)),
        replace(FREE, publisher=Jid("eve@x"), headers=(("b", "2"),), size=8, sum=NEW),
    ),
    "it shall live no longer": (c.SetLife(LOCKED, after(5)), replace(LOCKED, expires=after(5))),
    "its times are corrected": (
        c.SetTimes(LOCKED, NOW, NOW, None, after(7), after(8)),
        replace(LOCKED, published=NOW, taken=NOW, due=None, expires=after(7), deadline=after(8)),
    ),
    "its lock is extended": (c.Extend(LOCKED, after(999)), replace(LOCKED, deadline=after(999))),
    "it is put aside": (
        c.Postpone(FREE, after(5)),
        replace(FREE, state=State.DELAYED, due=after(5), aside=True),
    ),
    "its pause is over": (
        c.Ripen(replace(FREE, state=State.DELAYED, due=NOW, aside=True)),
        replace(FREE, due=NOW),
    ),
    "it is its turn": (c.TakeTurn(replace(FREE, group="g"), 40), replace(FREE, group="g", turn=40)),
    "it is locked in its turn": (
        c.Lock(replace(FREE, group="g", turn=40), ANN, 12, after(60), NOW),
        replace(
            FREE,
            group="g",
            turn=40,
            state=State.LOCKED,
            holder=ANN,
            token=12,
            deadline=after(60),
            taken=NOW,
            acquired=1,
        ),
    ),
    "it fails in its turn, and keeps it": (
        c.Release(replace(LOCKED, group="g", turn=40), State.DELAYED, after(5), 1, 0),
        replace(
            LOCKED,
            group="g",
            turn=40,
            state=State.DELAYED,
            due=after(5),
            failed=1,
            avoid=ANN,
            holder=None,
            deadline=None,
        ),
    ),
    "it dies in its turn, which is over": (
        c.GiveUp(replace(LOCKED, group="g", turn=40), after(1), "worn out", 20, number=9),
        replace(
            LOCKED,
            group="g",
            state=State.DEAD,
            failed=20,
            failure="worn out",
            holder=None,
            deadline=None,
            dead_letter=DeadLetter(9, after(1), "worn out", None, ANN),
        ),
    ),
    "it moves with its group, and has no turn there": (
        c.GiveUp(
            replace(LOCKED, group="g", turn=40), after(1), "worn out", 20, ELSEWHERE, number=9
        ),
        replace(
            LOCKED,
            **AS_NEW | {"node": ELSEWHERE},
            group="g",
            dead_letter=DeadLetter(9, after(1), "worn out", JOBS, ANN),
        ),
    ),
    "it dies where it is": (
        c.GiveUp(LOCKED, after(1), "worn out", 20, number=9),
        replace(
            LOCKED,
            state=State.DEAD,
            failed=20,
            failure="worn out",
            holder=None,
            deadline=None,
            dead_letter=DeadLetter(9, after(1), "worn out", None, ANN),
        ),
    ),
    "it dies and moves": (
        c.GiveUp(LOCKED, after(1), "worn out", 20, ELSEWHERE, number=9),
        replace(
            LOCKED,
            **AS_NEW | {"node": ELSEWHERE},
            dead_letter=DeadLetter(9, after(1), "worn out", JOBS, ANN),
        ),
    ),
    "it lives again elsewhere": (
        c.Revive(DEAD, ELSEWHERE),
        replace(DEAD, **AS_NEW | {"node": ELSEWHERE, "dead_letter": None}),
    ),
    "the members of a join are counted": (
        c.Count(JOIN, Join(1, 1, 2, is_open=False)),
        replace(JOIN, wait=replace(JOIN.wait, join=Join(1, 1, 2, is_open=False))),
    ),
    "the last of its members wakes a join": (
        c.Count(JOIN, Join(0, 0, 2, is_open=False), wakes=True),
        replace(
            JOIN,
            state=State.QUEUED,
            due=None,
            wait=replace(JOIN.wait, join=Join(0, 0, 2, is_open=False), woken=Woken.COUNT),
        ),
    ),
    "a join dies with a member": (
        c.Count(JOIN, Join(2, 1, 2), fails=after(3)),
        replace(
            JOIN,
            due=after(3),
            wait=replace(JOIN.wait, join=Join(2, 1, 2), then=AtDeadline.DEAD),
        ),
    ),
    "a join is closed": (
        c.CloseJoin(JOIN),
        replace(JOIN, wait=replace(JOIN.wait, join=Join(2, 0, 2, is_open=False))),
    ),
    "it is removed": (c.RemoveItem(LOCKED), None),
    "it is done, and kept": (c.RemoveItem(LOCKED, done_at=after(3), done_by=ANN), DONE),
    "a seek leads past it": (c.RemoveItem(LOCKED, done_at=after(3)), LED_PAST),
    "what was done waits again": (
        c.Revive(DONE, JOBS, after(60)),
        replace(DONE, **AS_NEW | {"expires": after(60)}),
    ),
}


def test_a_change_makes_of_an_item():
    assert {what: (change, a.after(change)) for what, (change, _) in CHANGES.items()} == CHANGES


def test_another_payload_keeps_all_but_headers_and_publisher():
    rich = replace(FREE, due=after(5), expires=after(60), group="g", turn=4, failed=2)
    now = a.after(c.ReplacePayload(rich, b"<new/>", Jid("eve@x"), (("b", "2"),)))
    content = sum_of(rich.id, b"<new/>", "g", (("b", "2"),))
    assert now == replace(rich, publisher=Jid("eve@x"), headers=(("b", "2"),), size=8, sum=content)


def test_every_change_of_an_item_is_here():
    assert {type(change) for change, _ in CHANGES.values()} == set(get_args(c.ItemChange))


EVENTS = {
    Transition.LOCK: lambda item: c.Lock(item, ANN, 12, after(60), NOW),
    Transition.RETRACT: c.RemoveItem,
    Transition.RELEASE: lambda item: c.Release(item, State.QUEUED, None, item.failed, 1),
    Transition.FAIL: lambda item: c.Release(item, State.QUEUED, None, item.failed + 1, 0),
    Transition.GIVE_UP: lambda item: c.GiveUp(item, NOW, "worn out", 1),
    Transition.POSTPONE: lambda item: c.Postpone(item, after(5)),
    Transition.RIPEN: c.Ripen,
    Transition.REVIVE: lambda item: c.Revive(item, item.node),
    Transition.FINISH: lambda item: c.RemoveItem(item, done_at=NOW),
    Transition.HOLD: lambda item: c.Hold(item, WAIT),
    Transition.WAKE: c.Wake,
}
IN_STATE = {
    State.QUEUED: FREE,
    State.LOCKED: LOCKED,
    State.DELAYED: replace(FREE, state=State.DELAYED, due=NOW),
    State.HELD: HELD,
    State.DEAD: DEAD,
    State.DONE: DONE,
}


def state_after(state, event):
    """Return the state after an event; None if it cannot happen in this one, which is said with the item and the event."""
    try:
        now = a.after(EVENTS[event](IN_STATE[state]))
    except a.ImpossibleChangeError as error:
        return None if (error.item, error.event) == (IN_STATE[state], event) else error
    return GONE if now is None else now.state


def test_the_state_after_it_is_that_of_the_table():
    assert {cell: state_after(*cell) for cell in NEXT} == NEXT


def test_former_holders_are_remembered_while_the_item_stays_in_its_node():
    released = a.after(CHANGES["it is released"][0])
    moved = a.after(CHANGES["it dies and moves"][0])
    assert [a.lost_by(LOCKED, now) for now in (released, moved, None, LOCKED)] == [
        *(ANN, None, None, None)
    ]
    assert [a.begins_anew(LOCKED, now) for now in (released, moved, None)] == [False, True, False]


def test_ready_items_can_be_delivered():
    aside = replace(FREE, state=State.DELAYED, due=NOW, aside=True)
    ready = [FREE, aside, IN_STATE[State.DELAYED], LOCKED, DEAD, DONE, None]
    assert [a.is_ready(item) for item in ready] == [True, True, *[False] * 5]


def test_only_the_item_of_a_group_whose_turn_it_is_is_ready():
    assert not a.is_ready(replace(FREE, group="g"))
    assert a.is_ready(replace(FREE, group="g", turn=40))
    assert not a.is_ready(replace(LOCKED, group="g", turn=40))


MARK = t.Mark("app", 3, 1, 2)
ROWS = (
    t.StagedItem(draft("a"), State.QUEUED, None, None, 10),
    t.StagedItem(draft("b"), State.QUEUED, None, None, 10, over=4),
)
STAGE = t.Stage(MARK, account_of(ETL), JOBS, ROWS, NOW, after(60))


def test_the_first_that_is_staged_makes_its_rows():
    app, version, attempt, mine, everybody = a.staged(STAGE, None, None, None, None, None)
    assert app == t.App("app", account_of(ETL), used=NOW)
    assert version == t.Version(
        "app", 3, account_of(ETL), immediate=False, began=NOW, until=after(60), items=1, bytes=16
    )
    assert attempt == t.Attempt("app", 3, 1, 2, 1, 16)
    assert (mine, everybody) == (t.StagedTotals(account_of(ETL), 1, 16), t.StagedTotals("", 1, 16))


def test_more_that_is_staged_is_added():
    before = a.staged(STAGE, None, None, None, None, None)
    app, version, attempt, mine, everybody = a.staged(replace(STAGE, at=after(1)), *before)
    assert (app.used, version.began) == (after(1), NOW)
    counts = [(row.items, row.bytes) for row in (version, attempt, mine, everybody)]
    assert counts == [(2, 32)] * 4


def test_known_items_are_counted_once():
    again, fresh = (replace(row, known=True) for row in reversed(ROWS))
    change = replace(STAGE, rows=(fresh, again))
    _, _, attempt, _, _ = a.staged(change, None, None, None, None, None)
    assert attempt == t.Attempt("app", 3, 1, 2, 1, 16, known=1)


def test_a_subscription_is_set_and_ended():
    before = window(ANN, 1, available=False)
    changes = (
        (c.SetWindow(JOBS, ANN, 5), replace(before, queue_requests=5, available=True)),
        (c.SetAvailable(JOBS, ANN, available=True), replace(before, available=True)),
        (c.SetQuiet(JOBS, ANN, quiet=True), replace(before, quiet=True)),
        (c.SetQuiet(JOBS, ANN, quiet=False), replace(before, available=True)),
        (c.NoteUnanswered(JOBS, ANN, 2), replace(before, unanswered=2)),
        (
            c.NoteUnanswered(JOBS, ANN, 4, silenced=True),
            replace(before, unanswered=4, available=False),
        ),
        (c.EndSubscription(JOBS, ANN), None),
    )
    assert [a.subscription_after(change, before) for change, _ in changes] == [
        expected for _, expected in changes
    ]
    assert a.subscription_after(c.AddSubscription(before), None) == before


# The life of an item: queued -> locked -> gone, with delayed, held, dead and done beside (XEP-0254 2, 4).
LIFE = """
            lock    retract  release  fail    give-up  postpone  ripen   revive  finish  hold    wake
queued      locked  gone     -        -       dead     delayed   -       queued  done    -       -
locked      -       gone     queued   queued  dead     -         -       -       done    held    -
delayed     locked  gone     -        -       dead     -         queued  queued  done    -       -
held        -       gone     -        -       dead     -         -       queued  done    -       queued
dead        -       gone     -        -       -        -         -       queued  done    -       -
done        -       gone     -        -       -        -         -       queued  -       -       -
"""


def restated() -> dict[tuple[State, Transition], str | None]:
    head, *rows = LIFE.strip().splitlines()
    events = [Transition[word.upper().replace("-", "_")] for word in head.split()]
    table = {}
    for row in rows:
        state, *cells = row.split()
        for event, cell in zip(events, cells, strict=True):
            table[State(state), event] = None if cell == "-" else cell
    return table


def test_every_state_meets_every_event():
    assert set(NEXT) == {(state, event) for state in State for event in Transition}


def test_the_life_of_an_item_is_this_table():
    assert restated() == NEXT


@pytest.mark.parametrize(
    ("times", "pause"),
    [(-1, 0), (0, 0), (1, 2), (2, 4), (3, 8), (4, 16), (5, 30), (6, 30), (10**9, 30)],
)
def test_pauses_double_between_their_bounds(times, pause):
    config = queue(backoff_min=2, backoff_max=30).config
    assert backoff(config, waiting(1), times) == seconds(pause)


def test_without_a_backoff_nothing_waits():
    config = queue(backoff_min=0, backoff_max=0, backoff_jitter=1).config
    assert backoff(config, waiting(1), 9) == 0


@pytest.mark.parametrize("step", [0, 1, 2, 3])
def test_items_that_failed_together_come_again_one_after_the_other(step):
    config = queue(backoff_min=2, backoff_max=30, backoff_jitter=0.5).config
    items = [waiting(number, token=7 + number * step) for number in range(1, 1001)]
    pauses = [backoff(config, item, 2) for item in items]
    assert pauses == [backoff(config, item, 2) for item in items]
    assert min(pauses) >= seconds(4)
    assert max(pauses) < seconds(6)
    for tenth in range(10):
        begin = seconds(4 + tenth * 0.2)
        assert 80 < sum(begin <= pause < begin + 200 for pause in pauses) < 120


def test_each_attempt_of_an_item_has_another_pause():
    config = queue(backoff_min=2, backoff_max=2, backoff_jitter=1).config
    pauses = {backoff(config, waiting(1, token=token), 2) // 100 for token in range(20)}
    assert len(pauses) > 12


def test_an_item_waits_only_for_a_pause_that_lasts():
    assert a.waiting(after(0), Millis(0)) == (State.QUEUED, None)
    assert a.waiting(after(0), seconds(2)) == (State.DELAYED, after(2))


@pytest.mark.parametrize(("failed", "expected"), [(0, False), (1, False), (2, True), (9, True)])
def test_the_failure_that_reaches_the_limit_is_the_last(failed, expected):
    assert exhausted(waiting(failed=failed), queue(max_failures=3).config) is expected
