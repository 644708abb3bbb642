"""Turns in a group."""

from harness.batches.facts import NOW, held, waiting
from hypothesis import given
from hypothesis import strategies as st

from pubqueue.model.entities import State
from pubqueue.rules.dispatch import in_line, next_turns


def of(seq, **facts):
    return waiting(seq, group="g", **facts)


def test_in_line_is_what_waits_for_a_turn():
    delayed = {"state": State.DELAYED, "due": NOW}
    lines = {
        "it waits": of(1),
        "it is of no group": waiting(1),
        "it has its turn": of(1, turn=9),
        "its publisher has delayed it": of(1, **delayed),
        "it is in work": held(1, group="g", turn=9),
        "it is dead": of(1, state=State.DEAD),
    }
    assert [why for why, item in lines.items() if in_line(item)] == ["it waits"]


def test_the_first_published_are_next_whatever_their_priority():
    line = [of(5, priority=9), of(3), of(4, priority=-1)]
    assert [item.seq for item in next_turns(2, 0, line)] == [3, 4]
    assert [item.seq for item in next_turns(4, 2, line)] == [3, 4]


def test_a_limit_that_was_lowered_takes_no_turn_away():
    assert next_turns(1, 3, [of(1)]) == []


@given(st.integers(1, 9), st.integers(0, 12), st.lists(st.integers(1, 99), unique=True))
def test_never_more_than_the_limit_and_no_wait_in_vain(limit, turns, seqs):
    found = [item.seq for item in next_turns(limit, turns, [of(seq) for seq in seqs])]
    assert found == sorted(seqs)[: len(found)]
    assert turns + len(found) <= max(limit, turns)
    assert len(found) == len(seqs) or turns + len(found) >= limit
