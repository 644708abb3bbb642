"""Who may hold an item and who may signal it, and what becomes of it."""

import pytest
from harness.batches.facts import (
    ANN,
    BOB,
    BOSS,
    ETL,
    EVE,
    JOBS,
    NOW,
    after,
    held,
    queue,
    waiting,
    who,
)
from msgspec.structs import replace

from pubqueue.model.after import after as item_after
from pubqueue.model.changes import GiveUp, Hold, RemoveItem, TakeSignal
from pubqueue.model.decision import Decision, Done, Refusal, Refused, Signaled
from pubqueue.model.entities import AccessModel, Affiliation, ItemId, Millis, PublishModel, State
from pubqueue.model.notices import Unlocked
from pubqueue.model.records import Holding, Quota
from pubqueue.model.waits import (
    MAX_DATA,
    MAX_NAMES,
    MAX_SIGNALS,
    AtDeadline,
    Came,
    Wait,
    Woken,
    mark_of,
)
from pubqueue.rules import waits
from pubqueue.rules.give_back import Case
from pubqueue.rules.room import Allowance
from pubqueue.rules.settle import SettleFacts
from pubqueue.rules.waits import HoldFacts, SignalFacts

I1 = ItemId("i1")
NONE, OWNER = Affiliation.NONE, Affiliation.OWNER


def holds(item, *signals, by=ANN, node=None, allowance=None, lost=(), **said):
    request = waits.Hold(who(by), JOBS, I1, signals, **said)
    rows = (item,), frozenset((1, jid) for jid in lost)
    facts = SettleFacts(NOW, node or queue(), NONE, *rows, subscribed=True)
    return waits.hold(request, HoldFacts(facts, allowance))


def signals(item, name="a", data="", *, by=BOSS, affiliation=OWNER, node=None, once="s1", **more):
    request = waits.Signal(who(by), JOBS, I1, name, data, once)
    facts = SignalFacts(NOW, node or queue(), affiliation, item, **more)
    return waits.signal(request, facts)


def came(once, name="a", data="", at=0):
    return Came(once, name, data, "boss@x", at)


def kept(*names, **facts):
    """Return an item that is held for signals of these names."""
    return waiting(1, state=State.HELD, token=7, acquired=1, wait=Wait(names, 5, **facts))


def refusal(decision):
    assert decision.changes == decision.notices == ()
    return decision.reply.refusal if isinstance(decision.reply, Refused) else None


# --- hold ---------------------------------------------------------------------------------------


def test_a_held_item_waits_without_a_failure_and_its_holder_is_notified():
    item = held(1, failed=1, released=2, failure="no ink")
    decision = holds(item, "a", "b", within=Millis(9000), carry="{}")
    wait = Wait(("a", "b"), NOW, AtDeadline.DELIVER, "{}", holds=1)
    change = Hold(item, wait, after(9))
    assert decision == Decision(Done(), (change,), (Unlocked(ANN, JOBS, (I1,)),))
    now = item_after(change)
    assert now == waiting(1, state=State.HELD, due=after(9), acquired=1, token=7, wait=wait, size=2)


@pytest.mark.parametrize(
    ("by", "lost", "expected"),
    [(BOB, (), Refusal.LOCKED_BY_ANOTHER), (BOB, (BOB,), Refusal.LOCKED_BY_ANOTHER)],
)
def test_only_the_holder_may_hold(by, lost, expected):
    assert refusal(holds(held(1), "a", by=by, lost=lost)) is expected


def test_a_lock_that_is_over_holds_nothing():
    assert refusal(holds(held(1), "a", token=6)) is Refusal.LOCK_LOST
    assert refusal(holds(waiting(1), "a", lost=(ANN,))) is Refusal.LOCK_LOST
    assert refusal(holds(None, "a")) is Refusal.ITEM_NOT_FOUND


def test_a_signal_that_came_since_the_delivery_wakes_it_at_once():
    shown = came("s1"), came("s0", "c")
    wait = Wait(("a",), carry="1", came=(*shown, came("s2", "b")), seen=2, woken=Woken.SIGNAL)
    item = held(1, wait=wait, size=wait.size)
    (change,) = holds(item, "b", within=Millis(9000)).changes
    now = item_after(change)
    assert (now.state, now.due, now.size) == (State.QUEUED, None, now.wait.size)
    assert now.wait.woken is Woken.SIGNAL
    assert now.wait.came == (came("s0", "c"), came("s2", "b"))
    assert now.wait.known == (mark_of("s1"),)
    assert now.wait.carry == "1"


def test_a_signal_that_woke_it_does_not_wake_it_again():
    item = held(1, wait=Wait(("a",), came=(came("s1"),), seen=1, woken=Woken.SIGNAL))
    (change,) = holds(item, "a").changes
    assert item_after(change).state is State.HELD


@pytest.mark.parametrize("woken", [None, Woken.TIME])
def test_a_signal_that_was_only_shown_wakes_it(woken):
    """Its worker may have died after the answer came, and before it held the item."""
    item = held(1, wait=Wait(("a",), came=(came("s1"),), seen=1, woken=woken))
    (change,) = holds(item, "a").changes
    assert item_after(change).state is State.QUEUED


def test_what_an_item_carries_counts_for_the_limits():
    full = queue(max_bytes=10)
    assert refusal(holds(held(1), "a", carry="x" * 11, node=full)) is Refusal.NODE_FULL
    assert holds(held(1), "a", carry="x" * 10, node=full).reply == Done()
    spent = Allowance(Holding(BOSS, 1, 1, 99), Quota(bytes=100))
    assert refusal(holds(held(1), "a", carry="xx", allowance=spent)) is Refusal.TOO_MUCH_KEPT


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({}, Refusal.BAD_REQUEST),
        ({"signals": ("",)}, Refusal.BAD_REQUEST),
        ({"signals": ("a\nb",)}, Refusal.BAD_REQUEST),
        ({"signals": ("\u00e4" * 128,)}, Refusal.BAD_REQUEST),
        ({"signals": tuple(map(str, range(MAX_NAMES + 1)))}, Refusal.BAD_REQUEST),
        ({"signals": ("a",), "carry": "x" * (MAX_DATA + 1)}, Refusal.PAYLOAD_TOO_BIG),
        ({"signals": ("a",), "carry": "<" * (MAX_DATA // 4 + 1)}, Refusal.PAYLOAD_TOO_BIG),
        ({"signals": ("a",), "carry": "\x00"}, Refusal.BAD_REQUEST),
        ({"signals": tuple(map(str, range(MAX_NAMES))), "carry": "x" * MAX_DATA}, None),
        ({"within": Millis(0)}, None),
    ],
)
def test_a_hold_has_bounds(said, expected):
    fault = waits.fault_of_hold(waits.Hold(who(ANN), JOBS, I1, **said))
    assert (fault and fault.refusal) is expected


# --- signal -------------------------------------------------------------------------------------


def test_a_signal_wakes_what_is_held_for_it():
    item = kept("a", "b")
    one = Came("s1", "a", "1", "boss@x", NOW)
    change = TakeSignal(item, one, wakes=True)
    assert signals(item, data="1") == Decision(
        Signaled(JOBS, I1, State.QUEUED, wakes=True), (change,)
    )
    now = item_after(change)
    assert (now.state, now.due, now.size) == (State.QUEUED, None, one.size)
    assert now.wait == Wait(("a", "b"), 5, came=(one,), woken=Woken.SIGNAL)


@pytest.mark.parametrize(
    "item", [waiting(1), held(1), waiting(1, state=State.DELAYED, due=after(9)), kept("b"), kept()]
)
def test_in_any_other_state_it_is_kept(item):
    decision = signals(item)
    assert decision.reply == Signaled(JOBS, I1, item.state)
    now = item_after(decision.changes[0])
    assert now == replace(item, wait=now.wait, size=now.wait.size)
    assert [one.id for one in now.wait.came] == ["s1"]


@pytest.mark.parametrize("wait", [Wait(came=(came("s1"),)), Wait(known=(mark_of("s1"),))])
def test_a_repeated_one_counts_once(wait):
    item = held(1, wait=wait)
    assert signals(item) == Decision(Signaled(JOBS, I1, State.LOCKED, again=True))


def test_one_more_than_there_is_room_for_is_refused_and_none_is_dropped():
    full = Wait(came=tuple(came(f"{number}") for number in range(MAX_SIGNALS)))
    assert refusal(signals(held(1, wait=full))) is Refusal.TOO_MANY_SIGNALS
    assert refusal(signals(held(1), data="xxx", node=queue(max_bytes=9))) is Refusal.NODE_FULL
    spent = Allowance(Holding(BOSS, 1, 1, 99), Quota(bytes=100))
    assert refusal(signals(held(1), allowance=spent)) is Refusal.TOO_MUCH_KEPT


# fmt: off
MAY = {
    #                           there                  gone
    Affiliation.OWNER:         (None,                  Refusal.ITEM_NOT_FOUND),
    Affiliation.PUBLISHER:     (None,                  Refusal.ITEM_NOT_FOUND),
    Affiliation.PUBLISH_ONLY:  (None,                  Refusal.ITEM_NOT_FOUND),
    Affiliation.MEMBER:        (Refusal.FORBIDDEN,     Refusal.FORBIDDEN),
    Affiliation.NONE:          (Refusal.FORBIDDEN,     Refusal.FORBIDDEN),
    Affiliation.OUTCAST:       (Refusal.FORBIDDEN,     Refusal.FORBIDDEN),
}
# fmt: on


@pytest.mark.parametrize("affiliation", Affiliation)
def test_owners_and_publishers_may_signal_and_others_learn_nothing(affiliation):
    there, gone = MAY[affiliation]
    open_to_all = queue(access_model=AccessModel.OPEN, publish_model=PublishModel.OPEN)
    found = [
        signals(item, by=EVE, affiliation=affiliation, node=open_to_all).reply
        for item in (kept("a"), None)
    ]
    assert [one.refusal if isinstance(one, Refused) else None for one in found] == [there, gone]


def test_a_closed_node_is_closed_to_strangers_and_open_to_the_author():
    closed = queue(access_model=AccessModel.WHITELIST)
    assert refusal(signals(kept("a"), by=EVE, affiliation=NONE, node=closed)) is Refusal.CLOSED_NODE
    assert refusal(signals(None, by=EVE, affiliation=NONE, node=closed)) is Refusal.CLOSED_NODE
    wrote = signals(kept("a"), by=ETL, affiliation=NONE, node=closed)
    assert wrote.reply == Signaled(JOBS, I1, State.QUEUED, wakes=True)
    outcast = signals(kept("a"), by=ETL, affiliation=Affiliation.OUTCAST, node=closed)
    assert refusal(outcast) is Refusal.FORBIDDEN


@pytest.mark.parametrize(
    ("name", "once", "data", "expected"),
    [
        ("", "s", "", Refusal.BAD_REQUEST),
        ("a", "", "", Refusal.BAD_REQUEST),
        ("a", "x" * 256, "", Refusal.BAD_REQUEST),
        ("a", "s", "x" * (MAX_DATA + 1), Refusal.PAYLOAD_TOO_BIG),
        ("a", "s", "\ud800", Refusal.BAD_REQUEST),
        ("a" * 255, "s" * 255, "x" * MAX_DATA, None),
    ],
)
def test_a_signal_has_bounds(name, once, data, expected):
    fault = waits.fault_of_signal(waits.Signal(who(BOSS), JOBS, I1, name, data, once))
    assert (fault and fault.refusal) is expected


# --- the end of its time ------------------------------------------------------------------------


def test_what_nobody_has_signaled_is_dead_or_discarded_if_its_worker_said_so():
    assert not waits.ends(kept("a"))
    dies, goes = kept("a", then=AtDeadline.DEAD), kept("a", then=AtDeadline.DISCARD)
    assert waits.ends(dies)
    assert waits.end(Case(dies, queue()), NOW) == GiveUp(dies, NOW, waits.UNANSWERED, 0)
    assert waits.end(Case(goes, queue()), NOW) == RemoveItem(goes)
    dead = item_after(GiveUp(dies, NOW, waits.UNANSWERED, 0, number=1))
    assert (dead.state, dead.due, dead.wait.woken) == (State.DEAD, None, Woken.TIME)
