"""How much of the event log is removed."""

import pytest

from pubqueue.model.changes import ForgetEvents
from pubqueue.model.decision import Decision
from pubqueue.model.entities import Millis
from pubqueue.model.replies import Trimmed
from pubqueue.rules.read import TRIM_SLICE, Trim, TrimFacts, trim


@pytest.mark.parametrize(
    ("oldest", "newest", "aged", "through"),
    [
        (0, 0, None, None),
        (1, 100, None, None),
        (1, 101, None, 1),
        (51, 250, None, 150),
        (1, 100, 7, 7),
        (1, 120, 7, 20),
        (1, 120, 30, 30),
        (7, 7, 7, None),
        (6, 7, 7, 6),
    ],
    ids=[
        *("empty", "just full", "one too many", "many too many", "aged", "both, size", "both, age"),
        *("the newest stays", "and stays"),
    ],
)
def test_old_and_excess_items_are_removed(oldest, newest, aged, through):
    expected = Decision(Trimmed(more=False), () if through is None else (ForgetEvents(through),))
    assert trim(Trim(Millis(1000), 100), TrimFacts(oldest, newest, aged)) == expected


def test_a_slice_at_a_time():
    facts = TrimFacts(11, 11 + 3 * TRIM_SLICE, None)
    expected = Decision(Trimmed(more=True), (ForgetEvents(10 + TRIM_SLICE),))
    assert trim(Trim(Millis(1000), 100), facts) == expected
