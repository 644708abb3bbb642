"""What may wait: for its answer, of all, of an account, of a server; and news for many, one lane for each node."""

import pytest

from pubqueue.engine import outbox
from pubqueue.faces import flow as intake_module
from pubqueue.faces.flow import Intake, SendQueues
from pubqueue.model.entities import Draft, ItemId, Jid, NodeName, Principal
from pubqueue.model.limits import ACCOUNT, DOMAIN, EVERYBODY
from pubqueue.rules.publication import Publish
from pubqueue.rules.read import ReadNodes

EVE = Principal(Jid("eve@x/1"), local=True)
EVES_OTHER = Principal(Jid("eve@x/2"), local=True)
ANN = Principal(Jid("ann@x/1"), local=True)


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def reported():
    return []


@pytest.fixture
def intake(reported, clock):
    return Intake(lambda: reported.append("full"), lambda: reported.append("room"), clock)


def local(number):
    return Principal(Jid(f"a{number}@x/1"), local=True)


def foreign(number):
    return Principal(Jid(f"a{number}@far/1"))


def publish(count):
    drafts = tuple(Draft(ItemId(f"{n}"), b"<a/>") for n in range(count))
    return Publish(EVE, NodeName("jobs"), drafts)


def test_enough_for_all_is_so_many_requests_until_half_of_them_are_answered(intake, reported):
    loads = [intake.take(local(number), 1) for number in range(EVERYBODY.requests + 10)]
    assert reported == ["full"]
    for _ in range(EVERYBODY.requests // 2 + 9):
        intake.done(loads.pop())
    assert reported == ["full"]
    intake.done(loads.pop())
    assert reported == ["full", "room"]


def test_enough_for_all_is_so_many_bytes_until_half_of_them_are_answered(intake, reported):
    loads = [intake.take(local(number), EVERYBODY.byte_count // 4) for number in range(4)]
    assert reported == ["full"]
    intake.done(loads.pop())
    assert reported == ["full"]
    intake.done(loads.pop())
    assert reported == ["full", "room"]


def test_one_that_is_larger_than_all_of_it_is_taken(intake, reported):
    assert not intake.beyond(EVE)
    intake.done(intake.take(EVE, 2 * EVERYBODY.byte_count))
    assert reported == ["full", "room"]
    assert not intake.beyond(EVE)


@pytest.mark.parametrize(
    ("word", "byte_count", "times"),
    [
        ("requests", 1, ACCOUNT.requests),
        ("bytes", ACCOUNT.byte_count // 4, 4),
        ("items", 1, ACCOUNT.items // 100 + 1),
    ],
)
def test_an_account_with_enough_under_way_waits_and_no_other(
    intake, reported, word, byte_count, times
):
    loads = []
    for _ in range(times):
        assert not intake.beyond(EVE)
        loads.append(intake.take(EVE, byte_count, publish(100) if word == "items" else None))
    assert word in intake.beyond(EVE)
    assert word in intake.beyond(EVES_OTHER), "all its resources are one account"
    assert not intake.beyond(ANN)
    assert reported == [], "one account cannot have the stream stopped"
    intake.done(loads.pop())
    assert not intake.beyond(EVE)
    for load in loads:
        intake.done(load)
    assert (intake.count, intake.byte_count, intake.reads) == (0, 0, 0)


def test_reads_have_a_bound_of_their_own_and_delay_no_other(intake, reported):
    loads = [intake.take(EVE, 100, ReadNodes(by=EVE)) for _ in range(ACCOUNT.reads)]
    assert "read" in intake.beyond_reading(EVE)
    assert not intake.beyond(EVE), "what changes something goes on"
    assert not intake.beyond_reading(ANN)
    others = [local(number) for number in range(EVERYBODY.reads - ACCOUNT.reads)]
    loads += [intake.take(one, 100, ReadNodes(by=one)) for one in others]
    assert "read" in intake.beyond_reading(ANN)
    assert (reported, intake.count) == ([], 0)
    for load in loads:
        intake.done(load)
    assert not intake.beyond_reading(ANN)


def test_a_server_that_is_not_ours_has_a_bound_for_all_its_accounts(intake):
    loads = [intake.take(foreign(number), 1) for number in range(DOMAIN.requests)]
    assert "the server far" in intake.beyond(foreign(10**6))
    assert not intake.beyond(Principal(Jid("a1@near/1")))
    assert not intake.beyond(ANN)
    intake.done(loads.pop())
    assert not intake.beyond(foreign(10**6))


def test_refused_requests_cost_what_they_took_and_that_is_forgiven(intake, clock):
    intake.charge(EVE, ACCOUNT.refused / 2)
    assert not intake.beyond(EVE)
    intake.charge(EVE, ACCOUNT.refused)
    assert "processor time" in intake.beyond(EVE)
    assert not intake.beyond(ANN)
    clock.now += ACCOUNT.refused / 2 / ACCOUNT.recovered + 0.01
    assert not intake.beyond(EVE)


def test_accounts_that_come_and_go_are_forgotten_and_what_their_server_has_cost_is_not(
    intake, monkeypatch
):
    monkeypatch.setattr(intake_module, "REMEMBERED", 100)
    used, load = intake._used, intake.take(ANN, 1)
    for number in range(1000):
        intake.charge(foreign(number), DOMAIN.refused / 500)
        assert len(used) <= 101
    assert "processor time" in intake.beyond(foreign(10**6))
    assert used[Jid("ann@x")].requests == 1
    intake.done(load)


def test_one_account_can_never_have_all(intake):
    """Neither can a server of strangers, so there is always room for somebody else."""
    for name in ("requests", "byte_count", "items", "reads"):
        one, server, all_ = (getattr(b, name) for b in (ACCOUNT, DOMAIN, EVERYBODY))
        assert one <= all_ / 2
        assert server <= all_ * 3 / 4


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
