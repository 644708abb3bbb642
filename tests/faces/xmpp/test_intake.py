"""How much may wait for its answer."""

import pytest

from pubqueue.core.queue.expire import Arrive
from pubqueue.core.reading.read import ReadNodes
from pubqueue.faces.xmpp.intake import MOST, MOST_OCTETS, Intake, weight
from pubqueue.faces.xmpp.room import LARGEST_ANSWER


@pytest.fixture
def told():
    return []


@pytest.fixture
def intake(told):
    return Intake(lambda: told.append("full"), lambda: told.append("room"))


def test_enough_is_so_many_requests_until_half_of_them_are_answered(intake, told):
    for _ in range(MOST + 10):
        intake.take(1)
    assert told == ["full"]
    for _ in range(MOST // 2 + 9):
        intake.done(1)
    assert told == ["full"]
    intake.done(1)
    assert told == ["full", "room"]


def test_enough_is_so_many_bytes_until_half_of_them_are_answered(intake, told):
    for _ in range(4):
        intake.take(MOST_OCTETS // 4)
    assert told == ["full"]
    intake.done(MOST_OCTETS // 4)
    assert told == ["full"]
    intake.done(MOST_OCTETS // 4)
    assert told == ["full", "room"]


def test_one_that_is_larger_than_all_of_it_is_taken(intake, told):
    intake.take(2 * MOST_OCTETS)
    intake.done(2 * MOST_OCTETS)
    assert told == ["full", "room"]


def test_a_request_with_a_large_answer_counts_as_much_as_that():
    assert weight(ReadNodes(by=None), 100) == 100 + LARGEST_ANSWER
    assert weight(Arrive("x"), 100) == 100
