"""Whose turn it is, and what becomes of an item at each step: a table, and rules that hold for all of them."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pubqueue_xeps.people import turns
from pubqueue_xeps.people.questions import Answer, Asked, Carry, Round
from pubqueue_xeps.people.turns import (
    ANSWERED,
    BOUNCED,
    LOOK,
    SENT,
    Ask,
    Came,
    Escalate,
    Finish,
    GiveUp,
    NoOne,
    Presences,
    Remind,
    SendAgain,
    Standing,
    Terms,
    Wait,
    next_asked,
    window,
)

BOT, ANNA, BOB, CAROL = "bot@x", "anna@x", "bob@x", "carol@x"
NOW, NEW, OLD = 10_000.0, "n" * 20, "o" * 20
TERMS = Terms(within=7200, remind=1800)


def standing(jid, *, available=True, opened=0, **more):
    return Standing(jid, available, opened, more.pop("window", 1), **more)


ALL_FREE = (standing(ANNA), standing(BOB))
NOBODY = (standing(ANNA, available=False), standing(BOB, opened=1))


def carried(*, sent=True, left=5400.0, before=(), to=(ANNA,), **more):
    current = Round(OLD, to, NOW - 100, NOW, left, sent=sent, **more)
    return Carry(BOT, current, before)


def answered(by=BOT, about=OLD, **more):
    data = {"question": about, "choice": 0, "by": ANNA, "at": 1.0} | more
    return Came(ANSWERED, data, by)


def mark(name, by=BOT, **data):
    return Came(name, {"question": OLD} | data, by)


def step(carry, woken=None, signals=(), standings=ALL_FREE, terms=TERMS):
    return turns.step(carry, woken, signals, standings, terms, by=BOT, now=NOW, new_id=NEW)


def test_a_new_item_is_put_to_who_is_free():
    found = step(Carry())
    assert isinstance(found, Ask)
    assert found.carry.round == Round(NEW, (ANNA,), NOW, NOW + turns.SENDING, 0.0)
    assert found.carry.by == BOT
    both = step(Carry(), terms=Terms(within=60, at_once=3))
    assert both.carry.round.to == (ANNA, BOB)


def test_a_new_item_that_nobody_can_be_asked_is_given_back():
    assert step(Carry(), standings=NOBODY) == NoOne()
    assert step(Carry(), standings=()) == NoOne()


@pytest.mark.parametrize(
    ("carry", "woken", "signals", "kind"),
    [
        # it is not known that it was sent
        (carried(sent=False), "signal", [mark(SENT)], Wait),
        (carried(sent=False), "time", [], SendAgain),
        (carried(sent=False), "signal", [mark(LOOK)], SendAgain),
        (carried(sent=False), "signal", [answered()], Finish),
        (carried(sent=False), "signal", [mark(SENT, by="etl@x")], Wait),
        # it was sent
        (carried(), "time", [], Remind),
        (carried(), "signal", [mark(LOOK)], Wait),
        (carried(), "signal", [answered()], Finish),
        (carried(), "time", [answered()], Finish),
        (carried(left=0.0), "time", [], Ask),
        (carried(), "signal", [mark(BOUNCED, to=ANNA)], Ask),
        (carried(), "signal", [mark(BOUNCED, to=BOB)], Wait),
        # what the author of the item sends counts for nothing
        (carried(), "signal", [answered(by="etl@x")], Wait),
        (carried(), "signal", [mark(BOUNCED, by="etl@x", to=ANNA)], Wait),
        (carried(), "signal", [answered(about="x" * 20)], Wait),
        (carried(), "signal", [Came(ANSWERED, "words", BOT)], Wait),
        (carried(), "signal", [Came(BOUNCED, None, BOT)], Wait),
    ],
)
def test_what_becomes_of_an_item_that_was_asked(carry, woken, signals, kind):
    found = step(carry, woken, signals)
    assert type(found) is kind
    if kind is Wait and SENT not in {one.name for one in signals}:
        assert found.carry == carry


def test_a_forged_mark_does_not_say_that_it_was_sent():
    found = step(carried(sent=False), "signal", [mark(SENT, by="etl@x")])
    assert not found.carry.round.sent


def test_the_time_of_a_person_begins_when_the_question_was_sent():
    found = step(carried(sent=False), "signal", [mark(SENT)]).carry.round
    assert (found.sent, found.wake, found.left) == (True, NOW + 1800, 5400)
    without = step(carried(sent=False), "signal", [mark(SENT)], terms=Terms(within=7200))
    assert (without.carry.round.wake, without.carry.round.left) == (NOW + 7200, 0)


def test_reminders_end_with_the_time():
    carry, sent, total = carried(sent=False), step(carried(sent=False), "signal", [mark(SENT)]), 0
    carry, reminders = sent.carry, 0
    while isinstance(found := step(carry, "time"), Remind):
        total += found.carry.round.wake - NOW
        carry, reminders = found.carry, reminders + 1
    assert (reminders, total) == (3, 5400)
    assert isinstance(found, Ask)
    assert found.carry.before == (Asked(OLD, (ANNA,), NOW - 100, NOW),)
    assert found.carry.round.to == (BOB,)


def test_an_answer_to_an_earlier_round_counts_too():
    """It came while the item was passed on: somebody who was asked has answered."""
    late = carried(to=(BOB,), before=(Asked("e" * 20, (ANNA,), 0, 1),))
    assert step(late, "signal", [answered(about="e" * 20)]) == Finish(
        Answer("e" * 20, 0, ANNA, 1.0)
    )


def test_an_answer_of_another_bot_counts_if_that_bot_has_asked():
    carry = msgspec.structs.replace(carried(), by="other@x")
    assert isinstance(step(carry, "signal", [answered(by="other@x")]), Finish)


PAST = (Asked("e" * 20, (BOB,), 0, 1),)


@pytest.mark.parametrize(
    ("standings", "escalate", "kind"),
    [
        (ALL_FREE, True, Escalate),
        (ALL_FREE, False, GiveUp),
        ((*ALL_FREE, standing(CAROL)), False, Ask),
        ((*ALL_FREE, standing(CAROL, available=False)), False, Wait),
        ((*ALL_FREE, standing(CAROL, available=False)), True, Escalate),
    ],
)
def test_after_the_last_it_is_escalated_or_dead_and_kept_for_who_is_away(standings, escalate, kind):
    terms = Terms(within=7200, escalate=escalate)
    found = step(carried(left=0.0, before=PAST), "time", [], standings, terms)
    assert type(found) is kind
    if kind is Wait:
        assert found.carry.round.to == (ANNA,)
        assert found.carry.round.wake == NOW + turns.AGAIN
    if kind is Escalate:
        asked = [one["asked"] for one in turns.history(found.before)]
        assert asked == [[BOB], [ANNA]]
    if kind is GiveUp:
        assert found.reason == "nobody has answered; 2 were asked"


def test_the_turn_goes_round():
    people = [
        standing(ANNA, last=5.0),
        standing(BOB, last=3.0),
        standing(CAROL, opened=1, window=2, last=1.0),
        standing("dora@x", available=False),
    ]
    assert next_asked(people, frozenset(), 4) == (BOB, ANNA, CAROL)
    assert next_asked(people, frozenset({BOB}), 1) == (ANNA,)


@pytest.mark.parametrize(
    ("clients", "available"),
    [
        ({}, False),
        ({"a": ("", 0)}, True),
        ({"a": ("chat", 5)}, True),
        ({"a": ("away", 0)}, False),
        ({"a": ("xa", 0)}, False),
        ({"a": ("dnd", 0)}, False),
        ({"a": ("away", 0), "b": ("", 0)}, True),
        ({"a": ("dnd", 0), "b": ("", 0)}, False),
        ({"a": ("", -1)}, False),
        ({"a": ("dnd", -1), "b": ("", 0)}, True),
        ({"a": ("nonsense", 0)}, False),
    ],
)
def test_who_can_be_asked(clients, available):
    assert Presences(clients).available is available


@pytest.mark.parametrize(
    ("people", "due", "looking", "size"),
    [
        (NOBODY, 0, False, 0),
        (NOBODY, 0, True, 1),
        (NOBODY, 3, False, 3),
        (NOBODY, 500, True, 10),
        (ALL_FREE, 0, False, 2),
        (ALL_FREE, 1, True, 3),
        ([standing(f"p{n}@x", window=9) for n in range(50)], 0, False, turns.MAX_WINDOW),
    ],
)
def test_the_worker_takes_what_can_be_asked(people, due, looking, size):
    assert window(people, due, looking=looking) == size


STANDINGS = st.lists(
    st.builds(
        Standing,
        st.sampled_from((ANNA, BOB, CAROL)),
        st.booleans(),
        st.integers(0, 3),
        st.integers(1, 3),
        st.floats(0, 100),
    ),
    unique_by=lambda one: one.jid,
)


@given(
    STANDINGS, st.integers(1, 3), st.lists(st.sampled_from(["time", "sent", "look"]), max_size=40)
)
def test_whatever_comes_nobody_is_asked_twice_and_no_more_than_can_be(standings, at_once, events):
    """From the first question to the end, over all rounds of an item."""
    terms = Terms(within=100, remind=30, at_once=at_once)
    carry, asked = Carry(), []
    for event in ("signal", *events):
        woken = "time" if event == "time" else "signal"
        current = "" if carry.round is None else carry.round.id
        names = {"sent": SENT, "look": LOOK}
        came = [Came(names[event], {"question": current}, BOT)] if event in names else []
        new = f"{len(asked):020x}"
        found = turns.step(carry, woken, came, standings, terms, by=BOT, now=NOW, new_id=new)
        if isinstance(found, Ask):
            to = found.carry.round.to
            free = {one.jid for one in standings if one.available and one.open < one.window}
            assert 1 <= len(to) <= at_once
            assert free.issuperset(to)
            asked.append(to)
        if isinstance(found, NoOne | GiveUp):
            break
        carry = found.carry
        assert len(msgspec.json.encode(carry)) < 16_000
    every = [one for to in asked for one in to]
    assert len(every) == len(set(every))
