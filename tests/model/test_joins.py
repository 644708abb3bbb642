"""What is kept of joins: the count, and the column of a member, in which each flipped bit is found."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pubqueue.model.joins import (
    BITS,
    DAMAGED,
    Join,
    JoinDead,
    Tally,
    member_of,
    members_of,
    membership,
)

NUMBERS = st.integers(1, 1 << 40)


@given(NUMBERS, NUMBERS)
def test_a_column_returns_the_join_and_is_found_by_it(join, member):
    column = membership(join, member)
    first, end = members_of(join)
    assert member_of(column, member) == join
    assert first <= column < end
    assert column < 1 << 62


@given(NUMBERS, NUMBERS, st.integers(0, 39 + BITS))
def test_a_flipped_bit_is_found(join, member, bit):
    assert member_of(membership(join, member) ^ 1 << bit, member) == DAMAGED


@given(NUMBERS, NUMBERS, NUMBERS)
def test_neighbours_have_no_members_in_common(one, other, member):
    first, end = members_of(one)
    assert (first <= membership(other, member) < end) is (one == other)


@pytest.mark.parametrize(
    ("join", "complete"),
    [
        (Join(0, 0, 0, is_open=True), ()),
        (Join(0, 0, 0, is_open=False), ("wait", "count", "fail")),
        (Join(1, 0, 9, is_open=False), ()),
        (Join(2, 2, 9, is_open=False), ("count",)),
        (Join(2, 1, 9, is_open=False), ()),
        (Join(2, 2, 9, is_open=True), ()),
    ],
)
def test_it_is_complete_when_none_is_to_come(join, complete):
    assert [one.value for one in JoinDead if join.is_complete(one)] == list(complete)


def test_it_counts_what_has_happened():
    assert Join(5, 2, 9).after(Tally(3, 2, 1, 2)) == Join(6, 1, 12)
    assert Tally(1, 2, 3, 4) + Tally(1, 1, 1, 1) == Tally(2, 3, 4, 5)
