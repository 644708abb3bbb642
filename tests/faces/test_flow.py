"""News for many: one lane for each node, one message of each in turn."""

import pytest

from pubqueue.engine import outbox
from pubqueue.faces.flow import SendQueues

BEHIND = []
"""The nodes that are said to be behind, by turns with None: there is room again."""


@pytest.fixture
def queues():
    BEHIND.clear()
    return SendQueues(BEHIND.append)


def drained(queues):
    found = []
    while queues:
        found.append(queues.next()[:2])
    return found


def test_of_one_node_all_are_notified_of_the_first_before_any_of_the_second(queues):
    queues.add("a", ("x", "y"), b"1", 0)
    queues.add("a", ("x", "y"), b"2", 0)
    assert drained(queues) == [("x", b"1"), ("y", b"1"), ("x", b"2"), ("y", b"2")]
    assert queues.byte_count == 0


def test_a_node_with_few_notices_does_not_wait_for_one_with_many(queues):
    queues.add("much", tuple("abcdefgh"), b"m", 0)
    queues.next()
    queues.add("little", ("x", "y"), b"l", 0)
    assert drained(queues)[:5] == [("b", b"m"), ("x", b"l"), ("c", b"m"), ("y", b"l"), ("d", b"m")]


def test_a_caller_is_called_when_the_notices_that_waited_are_sent(queues):
    called = []
    queues.add("a", ("x", "y"), b"1", 0)
    queues.add("b", ("x",), b"b", 0)
    queues.when_sent("a", lambda: called.append("first"))
    queues.add("a", ("x",), b"2", 0)
    queues.when_sent("a", lambda: called.append("second"))
    reported = []
    while queues:
        reported.append((queues.next()[1], tuple(called)))
    assert reported == [
        (b"1", ()),
        (b"b", ()),
        (b"1", ("first",)),
        (b"2", ("first", "second")),
    ]
    assert not queues.has("a")


def test_a_caller_is_called_when_the_waiting_notices_are_dropped(queues):
    called = []
    queues.add("a", ("x", "y"), b"1", 0)
    queues.when_sent("a", lambda: called.append(queues.has("a")))
    queues.clear()
    assert called == [False]


def test_a_node_is_behind_when_much_waits_and_it_is_part_of_it(queues, monkeypatch):
    monkeypatch.setattr(outbox, "MAX_BYTES", 100)
    queues.add("a", ("x",), b"1" * 90, 0)
    assert BEHIND == []
    queues.add("b", ("x", "y"), b"1" * 90, 0)
    (nodes,) = BEHIND
    assert [name in nodes for name in "abc"] == [True, True, False]
    queues.add("c", ("x",), b"1", 0)
    assert [len(BEHIND), "c" in nodes] == [1, True]
    queues.clear()
    assert not queues
    assert [BEHIND[1:], "a" in nodes] == [[None], False]


def test_there_is_room_again_when_enough_notices_are_sent(queues, monkeypatch):
    monkeypatch.setattr(outbox, "MAX_BYTES", 100)
    for name in "ab":
        queues.add(name, ("x",), b"1" * 90, 0)
    assert BEHIND[0] is BEHIND[-1]
    queues.next()
    assert BEHIND[1:] == [None]
    queues.add("a", ("x",), b"1" * 90, 0)
    assert BEHIND[2] is BEHIND[0]


def test_an_addressee_with_another_notice_has_a_text_of_its_own(queues):
    queues.add("a", ("x", "y", "z"), b"all", 3, {"y": (b"for y", 5)}.get)
    assert [queues.next() for _ in "xyz"] == [
        ("x", b"all", 3),
        ("y", b"for y", 5),
        ("z", b"all", 3),
    ]
    assert queues.byte_count == 0
