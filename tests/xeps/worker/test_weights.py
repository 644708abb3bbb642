"""Shares of the queues of one worker: their windows, and their turns."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pubqueue_xeps.worker.weights import Turns, weights_of, windows_of

WEIGHTS = st.dictionaries(st.sampled_from("abcde"), st.integers(1, 20), min_size=1, max_size=5)


@pytest.mark.parametrize(
    ("requests", "weights", "windows"),
    [
        (10, {"a": 1}, {"a": 10}),
        (10, {"a": 7}, {"a": 10}),
        (10, {"a": 1, "b": 1}, {"a": 10, "b": 10}),
        (10, {"a": 3, "b": 1}, {"a": 15, "b": 5}),
        (1, {"a": 90, "b": 1, "c": 1}, {"a": 2, "b": 1, "c": 1}),
    ],
)
def test_a_window_is_the_share_of_all_windows_and_never_empty(requests, weights, windows):
    assert windows_of(requests, weights) == windows


@given(WEIGHTS, st.integers(1, 50))
def test_windows_are_no_more_than_without_weights_and_one_for_each(weights, requests):
    windows = windows_of(requests, weights)
    assert windows.keys() == weights.keys()
    assert sum(windows.values()) <= requests * len(weights) + len(weights)


def test_each_node_has_a_weight():
    assert weights_of(("a", "b"), {"b": 3}) == {"a": 1, "b": 3}


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"c": 1}, "A weight is given to 'c', which is no node of this worker"),
        ({"a": 0}, "the weight of 'a' is 0; it takes a whole number, 1 or more"),
        ({"a": 0.5}, "the weight of 'a' is 0.5"),
    ],
)
def test_other_weights_are_refused(given, sentence):
    with pytest.raises(ValueError, match=sentence):
        weights_of(("a", "b"), given)


@given(WEIGHTS, st.integers(1, 5))
def test_while_all_have_work_each_has_the_turns_of_its_weight(weights, rounds):
    turns = Turns(weights)
    taken = []
    for _ in range(rounds * sum(weights.values())):
        taken.append(turns.order(weights)[0])
        turns.take(taken[-1])
    assert Counter(taken) == {node: rounds * weight for node, weight in weights.items()}


def test_a_node_that_had_no_work_does_not_make_up_for_it():
    turns, order = Turns({"a": 1, "b": 1}), []
    for _ in range(100):
        turns.take("a")
    turns.join("b")
    for _ in range(4):
        order.append(turns.order(["a", "b"])[0])
        turns.take(order[-1])
    assert sorted(order) == ["a", "a", "b", "b"]
