"""The effects of an answer, an error and silence: the table restated, cell by cell."""

from itertools import product

import pytest
from harness.batches.facts import ANN, BOB, JOBS, NOW, after, held, queue, waiting, who, window
from msgspec.structs import replace

from pubqueue.model.after import subscription_after
from pubqueue.model.changes import NoteAble, NoteUnanswered, PutRow
from pubqueue.model.decision import Done, GivenUp, Unanswered
from pubqueue.model.entities import Level, Millis, account_of
from pubqueue.model.notices import Deliver
from pubqueue.model.records import Answered
from pubqueue.rules.deliveries import (
    FIRST,
    OUTCOMES,
    AskUnanswered,
    DeliveryAnswer,
    DeliveryAnswerFacts,
    FeatureFacts,
    GiveUpFacts,
    GiveUpUnanswered,
    Lock,
    NoteDeliveryAnswer,
    NoteFeatures,
    Outcome,
    Repeating,
    Standing,
    Step,
    Then,
    UnansweredFacts,
    ask_unanswered,
    asks,
    give_up,
    level_of,
    levels_of,
    note_answer,
    note_features,
)
from pubqueue.rules.give_back import release

# heard, then what follows at the steps acknowledged, assured, deliver, and what becomes of the subscription
TABLE = """
RESULT    END      IGNORE   END      STAYS
RECEIVED  END      DELIVER  END      STAYS
GONE      BOUNCE   BOUNCE   BOUNCE   ENDS
FAILED    BOUNCE   BOUNCE   BOUNCE   PASSED_OVER
UNABLE    MESSAGE  MESSAGE  MESSAGE  STAYS
SILENCE   GIVE_UP  GIVE_UP  GIVE_UP  SILENCED
"""
ROWS = [line.split() for line in TABLE.strip().splitlines()]
CELLS = [
    (step, DeliveryAnswer[heard], Outcome(Then[then], Standing[standing]))
    for heard, *each, standing in ROWS
    for step, then in zip(Step, each, strict=True)
]


def test_the_table_is_this_and_every_step_has_an_outcome_for_every_answer():
    assert {(step, answer): outcome for step, answer, outcome in CELLS} == OUTCOMES
    assert set(OUTCOMES) == set(product(Step, DeliveryAnswer))


def test_messages_have_no_steps():
    assert set(FIRST) == set(Level) - {Level.UNACKNOWLEDGED}


@pytest.mark.parametrize(
    ("sendings", "pause"), [(1, 5.0), (2, 10.0), (3, 20.0), (4, 40.0), (5, 60.0), (10_000, 60.0)]
)
def test_the_pauses_double_up_to_the_longest(sendings, pause):
    assert Repeating().pause(sendings) == pause
    assert Repeating(longest=1).pause(sendings) == 1.0


# The level of deliveries: the option, else the queue's setting for clients that can answer.

NONE = Level.UNACKNOWLEDGED


@pytest.mark.parametrize("setting", Level)
def test_the_option_decides_or_else_the_queue_for_capable_clients(setting):
    config, found, expected = queue(qos=setting).config, {}, {}
    for option, able in product((None, *Level), (None, False, True)):
        one, bare = window(qos=option), window(account_of(ANN), qos=option)
        level = option if option is not None else setting if able else NONE
        levels = {} if level is NONE else {one.jid: level}
        expected[option, able] = (
            level,
            NONE,
            levels,
            option is None and setting is not NONE,
            False,
        )
        found[option, able] = (
            level_of(config, one, lambda _jid, able=able: able),
            level_of(config, bare, lambda _jid, able=able: able),
            levels_of(config, [one, bare], lambda _jid, able=able: able),
            asks(config, one),
            asks(config, bare),
        )
    assert found == expected


def test_no_client_is_looked_up_without_a_level():
    def never(_jid):
        raise AssertionError

    line = [window(), window(qos=Level.ASSURED)]
    assert levels_of(queue().config, line, never) == {line[1].jid: Level.ASSURED}
    assert levels_of(queue().config, [window()], never) == {}


# Deliveries that wait for an answer: read again, answered elsewhere, given up; and capabilities of clients.

HELD = held(deadline=after(60))
TOKEN = 7


def asked(item=HELD, answered=None, *, received=False, token=TOKEN, deadline=HELD.deadline):
    request = AskUnanswered(who(ANN), HELD.seq, token, deadline, received)
    return ask_unanswered(request, UnansweredFacts(item, b"<x/>", answered)).reply.delivery


def answer(*, arrived):
    return Answered(TOKEN, arrived=arrived, until=HELD.deadline)


def test_a_delivery_that_waits_is_read_again():
    assert asked() == Deliver(ANN, HELD, b"<x/>", again=True)
    assert asked(received=True) is not None


@pytest.mark.parametrize(
    "item",
    [
        None,
        waiting(HELD.seq, token=TOKEN),
        replace(HELD, holder=BOB),
        replace(HELD, token=TOKEN + 1),
        replace(HELD, deadline=Millis(HELD.deadline + 1)),
    ],
    ids=["retracted", "unlocked", "another's", "locked anew", "touched"],
)
def test_settling_or_expiry_counts_as_an_answer(item):
    assert asked(item) is None


@pytest.mark.parametrize(
    ("arrived", "received", "waits"),
    [(True, False, False), (True, True, False), (False, False, False), (False, True, True)],
)
def test_an_answer_at_another_instance_counts_for_its_step_and_those_before(
    arrived, received, waits
):
    assert (asked(answered=answer(arrived=arrived), received=received) is not None) is waits


def heard(item, *, arrived, answered=None, jid=ANN, token=TOKEN):
    request = NoteDeliveryAnswer(jid, HELD.seq, token, arrived)
    return note_answer(request, DeliveryAnswerFacts(NOW, item, answered, "s"))


def test_an_answer_is_noted_for_the_instance_that_waits():
    decision = heard(HELD, arrived=True)
    assert (decision.reply, decision.changes) == (Done(), (PutRow(answer(arrived=True)),))


def test_an_answer_that_the_bytes_arrived_leads_to_deliver():
    decision = heard(HELD, arrived=False)
    assert decision.reply == Unanswered(Deliver(ANN, HELD, b"", again=True, subid="s"))
    assert decision.changes == (PutRow(answer(arrived=False)),)
    assert heard(HELD, arrived=True, answered=answer(arrived=False)).changes == (
        PutRow(answer(arrived=True)),
    )


@pytest.mark.parametrize("arrived", [True, False])
def test_answers_about_ended_or_other_locks_are_ignored(arrived):
    for decision in (
        heard(None, arrived=arrived),
        heard(waiting(HELD.seq, token=TOKEN), arrived=arrived),
        heard(HELD, arrived=arrived, jid=BOB),
        heard(HELD, arrived=arrived, token=TOKEN - 1),
        heard(HELD, arrived=arrived, answered=answer(arrived=True)),
        heard(HELD, arrived=False, answered=answer(arrived=False)),
    ):
        assert (decision.reply, decision.changes) == (Done(), ())


def test_an_item_that_is_given_up_is_free_without_a_failure():
    node, one = queue(), window()
    other = replace(HELD, seq=2, token=8)
    request = GiveUpUnanswered(ANN, (Lock(1, TOKEN, HELD.deadline), Lock(2, 8, HELD.deadline)))
    decision = give_up(request, GiveUpFacts(NOW, ((HELD, node), (other, node)), (one,)))
    silence = NoteUnanswered(JOBS, ANN, 1, silenced=True)
    freed = release(HELD, node, NOW), release(other, node, NOW)
    assert (decision.reply, decision.changes) == (GivenUp(2), (*freed, silence))
    assert {change.failed for change in freed} == {0}
    assert not subscription_after(silence, one).available


def test_no_worker_is_held_back_if_all_was_answered():
    decision = give_up(
        GiveUpUnanswered(ANN, (Lock(1, TOKEN, HELD.deadline),)), GiveUpFacts(NOW, ())
    )
    assert (decision.reply, decision.changes) == (GivenUp(0), ())


@pytest.mark.parametrize("able", [True, False])
def test_capabilities_are_recorded_of_available_clients(able):
    request = NoteFeatures(ANN, able)
    noted = NoteAble(ANN, able)
    assert note_features(request, FeatureFacts(is_here=True)).changes == (noted,)
    assert note_features(request, FeatureFacts(is_here=True, able=not able)).changes == (noted,)
    assert note_features(request, FeatureFacts(is_here=True, able=able)).changes == ()
    assert note_features(request, FeatureFacts(is_here=False)).changes == ()
