"""Holders that send nothing: when they are pinged, and when they count as gone."""

import pytest
from harness.batches.facts import ANN, NOW

from pubqueue.model.changes import PutRow
from pubqueue.model.decision import Decision, Done
from pubqueue.model.records import PingAnswer
from pubqueue.rules.presence import (
    REMEMBERED,
    USUAL,
    AnsweredElsewhere,
    AnsweredFacts,
    Leave,
    LeaveFacts,
    Silence,
    Step,
    answered_elsewhere,
    leave,
    pinged,
    step,
)

LOOK = 5.0
"""The longest time between two looks, in seconds."""


@pytest.mark.parametrize(
    ("known", "now", "then"),
    [
        (Silence(0), 29.9, Step.NOTHING),
        (Silence(0), 30, Step.PING),
        (Silence(0, 30, 1), 44.9, Step.NOTHING),
        (Silence(0, 30, 1), 45, Step.PING),
        (Silence(0, 45, 2), 59.9, Step.NOTHING),
        (Silence(0, 45, 2), 60, Step.GONE),
    ],
)
def test_a_holder_is_pinged_twice_and_then_given_up(known, now, then):
    assert step(known, now, 30) is then


def test_an_answer_may_take_half_of_the_silence_before_a_ping():
    assert step(Silence(0, 2, 1), 2.9, 2) is Step.NOTHING
    assert step(Silence(0, 2, 1), 3, 2) is Step.PING


def test_an_item_of_a_dead_server_is_free_within_ninety_seconds():
    """A holder is first recorded at a check, and every step happens at one."""
    now = LOOK
    known = Silence(now)
    while (then := step(known, now, USUAL)) is not Step.GONE:
        if then is Step.PING:
            known = pinged(known, now)
        now += LOOK
    assert now <= 90


def test_an_answer_at_another_instance_is_noted_of_holders():
    change = PutRow(PingAnswer(ANN, NOW, NOW + REMEMBERED))
    asked = AnsweredElsewhere(ANN)
    assert answered_elsewhere(asked, AnsweredFacts(NOW, holds=True)).changes == (change,)
    assert answered_elsewhere(asked, AnsweredFacts(NOW, holds=False)) == Decision(Done())


@pytest.mark.parametrize(("answered", "stays"), [(None, False), (99, False), (100, True)])
def test_a_holder_that_answered_elsewhere_has_not_left(answered, stays):
    known = {"is_here": True, "answered": answered}
    decision = leave(Leave(ANN, unanswered=100), LeaveFacts(NOW, (), (), **known))
    assert (decision.changes == ()) is stays
