"""How many items may be delivered in which time."""

from fractions import Fraction

import pytest
from harness.batches.facts import NOW, after, queue
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pubqueue.model.entities import Millis
from pubqueue.rules.dispatch import TOGETHER, allowed, free_again, spend


def node(rate, spent=0):
    return replace(queue(rate=rate), spent=spent)


def take(one, now, count):
    return replace(one, spent=spend(one, now, count))


def test_without_a_rate_any_number_goes():
    assert allowed(node(None), NOW) is None
    assert spend(node(None), NOW, 7) == 0


@pytest.mark.parametrize(
    ("rate", "at_once"), [(5, 5), (1, 1), (2.5, 2), (0.1, 1), (100_000, 100_000)]
)
def test_after_a_long_time_it_is_worth_one_second_or_one_item(rate, at_once):
    assert allowed(node(rate), NOW) == at_once


def test_then_one_goes_each_time_that_one_is_free():
    one = take(node(4), NOW, 4)
    assert allowed(one, NOW) == 0
    assert free_again(one, NOW) == after(0.25)
    assert [allowed(one, after(moment)) for moment in (0.24, 0.25, 0.5, 0.99, 1, 60)] == [
        0,
        1,
        2,
        3,
        4,
        4,
    ]


def test_rates_below_one_per_second_deliver_one_by_one():
    one = take(node(0.1), NOW, 1)
    assert free_again(one, NOW) == after(10)
    assert [allowed(one, after(moment)) for moment in (9.999, 10, 60)] == [0, 1, 1]


def test_deliveries_that_become_free_within_a_moment_go_together():
    one = take(node(1000), NOW, 1000)
    assert free_again(one, NOW) == NOW + TOGETHER
    assert allowed(one, Millis(NOW + TOGETHER)) == 20


def test_a_clock_that_was_set_back_and_a_slower_rate_before_cost_one_second_at_most():
    for spent in (NOW * 1000 + 10**12, spend(node(0.001), NOW, 1)):
        assert free_again(node(10, spent), NOW) == after(0.1)


RATES = st.one_of(st.integers(1, 2000).map(float), st.sampled_from([0.001, 0.5, 1.5, 33.3]))
STEPS = st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 50)), max_size=60)


@given(RATES, STEPS)
def test_in_no_span_of_time_more_goes_than_the_rate_and_one_second(rate, steps):
    one, now, gone = node(rate), NOW, []
    for pause, wanted in steps:
        now = Millis(now + pause)
        count = min(wanted, allowed(one, now))
        one = take(one, now, count)
        gone.append((now, count))
    for first, (begin, _) in enumerate(gone):
        for last in range(first, len(gone)):
            span = Fraction(gone[last][0] - begin, 1000)
            most = Fraction(rate) * span + max(Fraction(rate), 1)
            assert sum(count for _, count in gone[first : last + 1]) <= most


@given(RATES, st.integers(1, 400))
def test_taking_all_free_deliveries_at_once_loses_no_time(rate, rounds):
    """In the long run exactly the rate is delivered, except for the pauses in which items are delivered together."""
    one, now, total = node(rate), NOW, 0
    for _ in range(rounds):
        count = allowed(one, now)
        total += count
        one = take(one, now, count)
        assert allowed(one, now) == 0
        now = free_again(one, now)
        assert allowed(one, now) >= 1
    spent = Fraction(now - NOW, 1000)
    assert total + rate * TOGETHER / 1000 + 1 >= Fraction(rate) * spent * Fraction(999, 1000)
