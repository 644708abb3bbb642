"""The effects of an answer, an error and silence: the table restated, cell by cell."""

from itertools import product

import pytest

from pubqueue.model.entities import Level
from pubqueue.rules.deliveries import (
    FIRST,
    OUTCOMES,
    DeliveryAnswer,
    Outcome,
    Place,
    Repeating,
    Step,
    Then,
)

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
    (step, DeliveryAnswer[heard], Outcome(Then[then], Place[place]))
    for heard, *each, place in ROWS
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
