import pytest
from harness.batches.facts import after, queue, waiting

from pubqueue.model import after as lifecycle
from pubqueue.model.after import NEXT, Transition, backoff, exhausted
from pubqueue.model.entities import Millis, State, seconds

# The life of an item: queued -> locked -> gone, with delayed, dead and done beside (XEP-0254 2, 4).
LIFE = """
            lock    retract  release  fail    give-up  postpone  ripen   revive  finish
queued      locked  gone     -        -       dead     delayed   -       queued  done
locked      -       gone     queued   queued  dead     -         -       -       done
delayed     locked  gone     -        -       dead     -         queued  queued  done
dead        -       gone     -        -       -        -         -       queued  done
done        -       gone     -        -       -        -         -       queued  -
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
    assert backoff(config, times) == seconds(pause)


def test_without_a_backoff_nothing_waits():
    assert backoff(queue(backoff_min=0, backoff_max=0).config, 9) == 0


def test_an_item_waits_only_for_a_pause_that_lasts():
    assert lifecycle.waiting(after(0), Millis(0)) == (State.QUEUED, None)
    assert lifecycle.waiting(after(0), seconds(2)) == (State.DELAYED, after(2))


@pytest.mark.parametrize(("failed", "expected"), [(0, False), (1, False), (2, True), (9, True)])
def test_the_failure_that_reaches_the_limit_is_the_last(failed, expected):
    assert exhausted(waiting(failed=failed), queue(max_failures=3).config) is expected
