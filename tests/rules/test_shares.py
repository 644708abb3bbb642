"""Whose item is next where groups have fair shares: what they have used of the time, and the weights of their shares."""

import heapq
import math
from collections import Counter

import pytest
from harness.batches.facts import NOW, after, waiting
from harness.depth import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from pubqueue.model.entities import Millis
from pubqueue.rules.shares import (
    COST,
    NEVER_USED,
    NOTHING,
    SPAN,
    Line,
    Use,
    WeightError,
    begun,
    ended,
    in_turn,
    learned,
    level,
    read_weights,
    starting,
    used,
    weights_of,
    written_weights,
)

MINUTES = 3


def line(order, *items, spent=0.0, held=0, weight=1, whole=True):
    return Line(Use(spent, NOW, held), weight, order, items, whole)


def items(group, count, **facts):
    return [waiting(ord(group) * 100 + n, group=group, **facts) for n in range(count)]


def turn(*lines, most=99, byte_count=1 << 20, usual=0.0, beyond=math.inf):
    """Return the groups of the next items, and whether there are more."""
    found = in_turn(lines, usual, NOW, most=most, byte_count=byte_count, beyond=beyond)
    return "".join(item.group for item in found.items), found.more


# --- what a group has used


def test_a_group_that_holds_an_item_uses_a_millisecond_in_a_millisecond_at_first():
    assert used(begun(NOTHING, NOW), after(0.1)) == pytest.approx(100 + COST, rel=0.01)


def test_what_was_used_fades_by_a_factor_of_e_in_a_minute():
    assert used(Use(1000, NOW), after(SPAN / 1000)) == pytest.approx(1000 / math.e)


def test_a_group_that_always_holds_three_comes_to_three_minutes():
    assert used(Use(0, NOW, 3), after(3600)) == pytest.approx(3 * SPAN)


@given(st.lists(st.tuples(st.integers(0, 5000), st.booleans()), max_size=20), st.integers(0, 9))
def test_what_is_computed_in_steps_is_what_is_computed_at_once(steps, held):
    use, at = Use(500, NOW, held), NOW
    for pause, looks in steps:
        at = Millis(at + pause)
        if looks:
            use = Use(used(use, at), at, held)
    assert used(use, at) == pytest.approx(used(Use(500, NOW, held), at))


def test_no_group_holds_less_than_nothing_and_a_clock_that_is_set_back_ends_nothing():
    assert ended(ended(begun(NOTHING, NOW), NOW), NOW).held == 0
    assert used(Use(500, NOW, 2), after(-60)) == 500


@pytest.mark.parametrize(("took", "usual"), [(16, 1), (-5, 0), (10 * SPAN, SPAN / 16)])
def test_how_long_items_are_usually_held_is_learned_slowly_up_to_a_minute(took, usual):
    assert learned(0, took) == pytest.approx(usual)


@given(st.floats(1, 1e6), st.integers(1, 1000), st.integers(0, 10**7))
def test_the_level_of_a_group_that_holds_nothing_does_not_change(spent, weight, pause):
    use = Use(spent, NOW)
    then = level(use, weight, 0, Millis(NOW + pause))
    assert then == pytest.approx(level(use, weight, 0, NOW), abs=1e-6)


def test_a_new_group_stands_where_it_was_started_whatever_its_weight():
    at = level(Use(700, NOW, 2), 1, 300, NOW)
    assert level(starting(at, 7, NOW), 7, 0, NOW) == pytest.approx(at)
    assert level(starting(NEVER_USED, 7, NOW), 7, 0, NOW) == NEVER_USED


# --- the next items

TURNS = {
    "nothing": ([], {}, ("", False)),
    "groups alternate": ([line(0, *items("a", 2)), line(1, *items("b", 3))], {}, ("ababb", False)),
    "the least first": ([line(0, *items("a", 1), spent=9), line(1, *items("b", 1))], {}, ("ba", False)),
    "in proportion": ([line(0, *items("a", 4)), line(1, *items("b", 2), weight=2)], {"most": 4}, ("abba", True)),
    "what is held counts": ([line(0, *items("a", 1), held=2), line(1, *items("b", 3))], {"usual": 50}, ("bbab", False)),
    "no more than fits": ([line(0, *items("a", 2)), line(1, *items("b", 2))], {"most": 3}, ("aba", True)),
    "until the bytes are full": ([line(0, *items("a", 3, size=60))], {"byte_count": 100}, ("aa", True)),
    "one in any case": ([line(0, *items("a", 2, size=60))], {"byte_count": 1}, ("a", True)),
    "put aside in addition": ([line(0, *items("a", 2), *items("a", 3, aside=True))], {"most": 1}, ("aaaa", True)),
    "and of all groups": ([line(0, *items("a", 2)), line(1, *items("b", 2, aside=True))], {"most": 1}, ("abb", True)),
    "as far as is known": ([line(0, *items("a", 1), whole=False), line(1, *items("b", 3))], {}, ("ab", True)),
    "as far as others are behind": ([line(0, *items("a", 3), spent=5)], {"beyond": level(Use(9, NOW), 1, 0, NOW)}, ("a", True)),
}  # fmt: skip


@pytest.mark.parametrize("name", TURNS)
def test_the_next_items_are_those_of_the_groups_with_the_least(name):
    lines, how, expected = TURNS[name]
    assert turn(*lines, **how) == expected


def test_the_items_of_a_group_stay_in_their_order():
    found = in_turn(
        [line(0, *items("a", 5)), line(1, *items("b", 5))], 20, NOW, most=8, byte_count=1 << 20
    )
    for group in "ab":
        seqs = [item.seq for item in found.items if item.group == group]
        assert seqs == sorted(seqs)


# --- an oracle: over minutes, groups that always have items get their shares of the time of the workers

spans = st.integers(200, 3000)
"""How long the items of a group take, in milliseconds."""


@settings(max_examples=examples(15))
@given(
    st.lists(st.tuples(st.integers(1, 4), spans), min_size=2, max_size=5),
    st.integers(2, 5),
)
def test_busy_groups_share_the_time_in_proportion_to_their_weights(groups, workers):
    """The event list has the end of each item that is held. What a group used is counted in plain milliseconds."""
    uses = [NOTHING] * len(groups)
    usual, time = 0.0, Counter()
    ends = [(NOW, n, None) for n in range(workers)]
    number = workers
    while ends[0][0] < after(60 * MINUTES):
        now, _, group = heapq.heappop(ends)
        if group is not None:
            uses[group] = ended(uses[group], now)
            usual = learned(usual, groups[group][1])
        lines = [
            Line(use, weight, at, [waiting(1, group=str(at))], whole=False)
            for at, (use, (weight, _)) in enumerate(zip(uses, groups, strict=True))
        ]
        (item,) = in_turn(lines, usual, now, most=1, byte_count=1 << 20).items
        group, number = int(item.group), number + 1
        uses[group] = begun(uses[group], now)
        time[group] += groups[group][1] + COST
        heapq.heappush(ends, (Millis(now + groups[group][1]), number, group))
    per_weight = [time[at] / weight for at, (weight, _) in enumerate(groups)]
    longest = max(span for _, span in groups)
    slack = (workers + 1) * longest + 0.1 * 60_000 * MINUTES * workers / sum(w for w, _ in groups)
    assert max(per_weight) - min(per_weight) <= slack


# --- weights

WEIGHTS = {
    "": {},
    "a=3": {"a": 3},
    "b=1000\n\n a=1 ": {"a": 1, "b": 1000},
    "=2": {"": 2},
    "a=b=2": {"a=b": 2},
}


@pytest.mark.parametrize("text", WEIGHTS)
def test_weights_are_read_by_groups_and_written_by_name(text):
    assert read_weights(text) == WEIGHTS[text]
    assert read_weights(written_weights(WEIGHTS[text])) == WEIGHTS[text]


BAD = ["a", "a=", "a=0", "a=1001", "a=1.5", "a=-1", "a=1\na=2", "a\x01=2", "ä" * 128 + "=1"]
TOO_MANY = "\n".join(f"g{n}=1" for n in range(101))


@pytest.mark.parametrize("text", [*BAD, TOO_MANY])
def test_what_is_no_table_of_weights_is_refused_and_has_no_effect_where_it_is_stored(text):
    with pytest.raises(WeightError):
        read_weights(text)
    assert weights_of(text) == {}


def test_as_many_groups_as_there_may_be_have_weights():
    assert len(read_weights(TOO_MANY.rpartition("\n")[0])) == 100
