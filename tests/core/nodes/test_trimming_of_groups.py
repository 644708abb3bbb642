"""More turns for the groups of a queue whose limit was raised: which slices, and when they end."""

import pytest
from harness.batches.facts import JOBS, plain, queue

from pubqueue.model.changes import CallGroups, EndTrim
from pubqueue.model.decision import Decision, Done
from pubqueue.model.entities import NodeConfig
from pubqueue.rules.audience import ReviewSubscribers
from pubqueue.rules.trimming import TrimItems, TrimItemsFacts, begins, groups_of_slice, trim

FIRST = NodeConfig(queueing=True, group_limit=3)


@pytest.mark.parametrize(
    ("limit", "queueing", "expected"),
    [(4, True, True), (3, True, False), (1, True, False), (4, False, False)],
)
def test_only_a_higher_limit_of_a_queue_gives_something_to_do(limit, queueing, expected):
    assert begins(FIRST, NodeConfig(queueing=queueing, group_limit=limit)) is expected


def test_a_slice_has_about_so_many_turns_whatever_the_limit():
    assert [groups_of_slice(NodeConfig(group_limit=limit)) for limit in (1, 2, 500, 1000)] == [
        *(500, 250, 1, 1)
    ]


def test_a_queue_is_trimmed_first_and_then_its_groups_are_called():
    decision = trim(TrimItems(JOBS, Done()), TrimItemsFacts(queue(), ()))
    assert decision == Decision(Done(), then=TrimItems(JOBS, Done(), group=""))


def test_a_slice_calls_its_groups_and_goes_on_behind_the_last():
    facts = TrimItemsFacts(queue(), (), groups=("a", "b"))
    decision = trim(TrimItems(JOBS, Done(), group=""), facts)
    then = TrimItems(JOBS, Done(), group="b")
    assert decision == Decision(Done(), (CallGroups(JOBS, ("a", "b")),), then=then)


def test_behind_the_last_group_it_ends_and_the_subscribers_follow():
    asked = TrimItems(JOBS, Done(), review=True, group="b")
    decision = trim(asked, TrimItemsFacts(queue(), ()))
    then = ReviewSubscribers(JOBS, Done())
    assert decision == Decision(Done(), (EndTrim(JOBS),), then=then)


def test_a_plain_node_has_no_groups_to_call():
    decision = trim(TrimItems(JOBS), TrimItemsFacts(plain(), ()))
    assert decision == Decision(Done(), (EndTrim(JOBS),))
