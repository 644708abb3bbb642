"""What is kept of deliveries that are not answered: bounded, the oldest of each holder first."""

import random

import pytest
from harness.batches.facts import ANN, BOB, NOW

from pubqueue.faces.xmpp import deliveries
from pubqueue.faces.xmpp.deliveries import Sent, UnansweredDeliveries
from pubqueue.model.entities import Level
from pubqueue.rules.deliveries import Step


def sent(seq, to=ANN, due=5.0, token=7):
    return Sent(to, seq, token, Level.ACKNOWLEDGED, Step.ACKNOWLEDGED, NOW, "", due)


@pytest.fixture
def waiting():
    return UnansweredDeliveries()


def test_of_each_holder_only_the_oldest_has_its_time(waiting):
    first, second, other = sent(1), sent(2, due=6), sent(3, BOB, due=7)
    for one in (first, second, other):
        waiting.add(one)
    assert waiting.next() == 5
    assert list(waiting.over(10)) == [first, other]
    assert list(waiting.over(10)) == []
    assert waiting.next() is None
    waiting.drop(first)
    assert list(waiting.over(10)) == [second]
    waiting.put_off(second, 20)
    assert waiting.next() == 20


def test_an_item_that_is_delivered_again_is_watched_once(waiting):
    waiting.add(sent(1))
    again = sent(1, token=8)
    waiting.add(again)
    assert (len(waiting), waiting.find(ANN, 1, 7), waiting.find(ANN, 1, 8)) == (1, None, again)
    assert waiting.find(BOB, 1, 8) is None


def test_a_holder_is_stalled_while_its_oldest_was_repeated(waiting):
    first, second = sent(1), sent(2)
    waiting.add(first)
    waiting.add(second)
    first.sendings = 2
    waiting.put_off(first, 9)
    assert waiting.stalled == {ANN}
    waiting.drop(second)
    assert waiting.stalled == {ANN}
    waiting.drop(first)
    assert (waiting.stalled, len(waiting)) == (set(), 0)


def test_it_is_bounded_and_keeps_nothing_of_those_that_are_answered(waiting, monkeypatch):
    monkeypatch.setattr(deliveries, "MAX", 100)
    every = [sent(seq, to=f"bot{seq % 7}@x/r", due=seq) for seq in range(200)]
    for one in every:
        waiting.add(one)
    assert len(waiting) == 100
    random.shuffle(every)
    for one in every:
        waiting.drop(one)
    assert (len(waiting), waiting.next(), list(waiting.over(1000))) == (0, None, [])
    assert waiting.of("bot1@x/r") == []
