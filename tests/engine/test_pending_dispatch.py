"""Work that a batch leaves to the next ones: nodes to deliver from, and a survey."""

import pytest

from pubqueue.engine.dispatch import PendingDispatch
from pubqueue.model.entities import NodeName

JOBS = NodeName("jobs")


@pytest.fixture
def pending():
    pending = PendingDispatch()
    pending.is_on = True
    return pending


def test_a_look_around_is_for_one_batch(pending):
    pending.look_around()
    assert pending
    assert [pending.take_look(), pending.take_look(), bool(pending)] == [True, False, False]


def test_a_look_around_that_is_under_way_ends_before_the_next_one(pending):
    pending.look_around()
    assert pending.take_look()
    pending.committed((), 1)
    pending.look_around()
    assert pending.take_look()
    pending.committed((), None)
    assert pending
    assert [pending.take_look(), pending.take_look()] == [True, False]


def test_nodes_that_are_left_are_due(pending):
    pending.committed((JOBS,), None)
    assert pending
    assert pending.rest == (JOBS,)
    assert not pending.take_look()
    pending.committed((), None)
    assert not pending


def test_a_batch_that_is_lost_is_looked_around_for_again(pending):
    pending.lost(look=False)
    assert not pending
    pending.lost(look=True)
    assert pending.take_look()


def test_while_no_client_can_be_reached_nothing_is_due(pending):
    pending.look_around()
    pending.committed((JOBS,), 1)
    pending.stop()
    assert not pending
    pending.committed((JOBS,), 1)
    pending.lost(look=True)
    assert not pending
