"""Long work between two slices: resumed work is started once, however often it is found."""

import pytest
from harness.batches.facts import JOBS

from pubqueue.engine.reader import LongWork
from pubqueue.model.decision import Decision, Done
from pubqueue.model.entities import NodeName
from pubqueue.rules.audience import ReviewSubscribers
from pubqueue.rules.trimming import TrimItems

OTHER = NodeName("other")


class SlowNews:
    """Notices that have not been sent yet."""

    def __init__(self):
        self.calls = []

    def when_sent(self, _nodes, call):
        self.calls.append(call)

    def leave(self):
        """Send all waiting notices."""
        calls, self.calls = self.calls, []
        for call in calls:
            call()


class Stage:
    """Long work that records its slices when they may run."""

    def __init__(self):
        self.news, self.submitted, self.answers = SlowNews(), [], []
        self.work = LongWork(
            self.news, lambda request, answer: self.submitted.append((request, answer))
        )

    def begin(self, request):
        """Run a slice that is followed by others."""
        self.work.go_on(Decision(Done(), then=request), self.answers.append)

    def next(self):
        """Return the slices that may run."""
        self.news.leave()
        found, self.submitted = self.submitted, []
        return found


@pytest.mark.parametrize("kind", [TrimItems, ReviewSubscribers])
def test_waiting_work_that_is_found_again_is_not_started_twice(kind):
    stage = Stage()
    for _ in range(20):
        stage.begin(kind(JOBS))
    assert stage.answers == [Done()] * 19
    ((request, answer),) = stage.next()
    assert request == kind(JOBS)
    stage.begin(kind(JOBS))  # nor while its slice is being done
    assert stage.answers == [Done()] * 20
    answer("end")
    assert stage.answers[-1] == "end"
    stage.begin(kind(JOBS))  # what met a store in trouble is begun again
    assert [request for request, _ in stage.next()] == [kind(JOBS)]


def test_other_nodes_other_kinds_and_waiters_for_the_end_are_served():
    stage = Stage()
    asked = [
        *(TrimItems(JOBS), TrimItems(OTHER), ReviewSubscribers(JOBS)),
        *(TrimItems(JOBS, Done()), TrimItems(JOBS, Done())),
    ]
    for request in asked:
        stage.begin(request)
    assert [request for request, _ in stage.next()] == asked
    assert stage.answers == []


def test_a_trim_that_goes_on_as_a_review_is_one_of_that_kind_then():
    stage = Stage()
    stage.begin(TrimItems(JOBS, review=True))
    ((_, answer),) = stage.next()
    stage.work.go_on(Decision(Done(), then=ReviewSubscribers(JOBS)), answer)
    stage.begin(ReviewSubscribers(JOBS))
    stage.begin(TrimItems(JOBS))
    assert [request for request, _ in stage.next()] == [ReviewSubscribers(JOBS), TrimItems(JOBS)]
