from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pubqueue_spark.read.ranges import DEFAULT_PARTITIONS, WORTH, begin, cut

EPOCH = datetime(2026, 11, 21, tzinfo=UTC)
numbers = st.integers(0, 10**12)


@given(numbers, numbers, st.none() | st.integers(1, 50))
def test_a_range_is_cut_without_a_gap_and_without_an_empty_piece(after, until, pieces):
    ranges = cut(after, until, pieces)
    if until <= after:
        assert ranges == []
        return
    assert [ranges[0][0], ranges[-1][1]] == [after, until]
    assert all(one[1] == next_[0] for one, next_ in pairwise(ranges))
    assert all(begin < end for begin, end in ranges)
    assert len(ranges) <= (pieces or DEFAULT_PARTITIONS)


def test_a_small_range_is_one_task_and_a_large_one_no_crowd():
    assert len(cut(0, WORTH, None)) == 1
    assert len(cut(0, WORTH + 1, None)) == 2
    assert len(cut(0, WORTH * 1000, None)) == DEFAULT_PARTITIONS


def test_a_read_begins_at_the_given_place():
    def nothing(after):
        raise AssertionError(after)

    assert begin("earliest", 7, 90, nothing) == 7
    assert begin("latest", 7, 90, nothing) == 90
    assert begin(0, 7, 90, nothing) == 0


@given(st.dictionaries(st.integers(8, 90), st.integers(0, 20), max_size=20), st.integers(0, 21))
def test_a_time_is_found_among_numbers_with_gaps(log, since):
    rising = sorted(log.values())
    log = {number: rising[at] for at, number in enumerate(sorted(log))}

    def first(after):
        behind = [(n, EPOCH + timedelta(seconds=at)) for n, at in log.items() if n > after]
        return min(behind, default=None)

    after = begin(EPOCH + timedelta(seconds=since), 7, max(log, default=7), first)
    assert {n for n in log if n > after} == {n for n, at in log.items() if at >= since}


@pytest.mark.parametrize("newest", [0, 7])
def test_an_empty_log_has_no_time(newest):
    assert begin(EPOCH, newest, newest, lambda _: None) == newest
