"""How much may wait for its answer: of all, of an account, of a server."""

import asyncio

import pytest
from harness.patience import TIMEOUT, turns

from pubqueue.engine import admission as admission_module
from pubqueue.engine.admission import Admission
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
def admission(reported, clock):
    made = Admission(clock)
    made.watch(lambda: reported.append("full"), lambda: reported.append("room"))
    return made


def local(number):
    return Principal(Jid(f"a{number}@x/1"), local=True)


def foreign(number):
    return Principal(Jid(f"a{number}@far/1"))


def publish(count):
    drafts = tuple(Draft(ItemId(f"{n}"), b"<a/>") for n in range(count))
    return Publish(EVE, NodeName("jobs"), drafts)


def test_enough_for_all_is_so_many_requests_until_half_of_them_are_answered(admission, reported):
    loads = [admission.take(local(number), 1) for number in range(EVERYBODY.requests + 10)]
    assert reported == ["full"]
    for _ in range(EVERYBODY.requests // 2 + 9):
        admission.done(loads.pop())
    assert reported == ["full"]
    admission.done(loads.pop())
    assert reported == ["full", "room"]


def test_enough_for_all_is_so_many_bytes_until_half_of_them_are_answered(admission, reported):
    loads = [admission.take(local(number), EVERYBODY.byte_count // 4) for number in range(4)]
    assert reported == ["full"]
    admission.done(loads.pop())
    assert reported == ["full"]
    admission.done(loads.pop())
    assert reported == ["full", "room"]


def test_one_that_is_larger_than_all_of_it_is_taken(admission, reported):
    assert not admission.beyond(EVE)
    admission.done(admission.take(EVE, 2 * EVERYBODY.byte_count))
    assert reported == ["full", "room"]
    assert not admission.beyond(EVE)


@pytest.mark.parametrize(
    ("word", "byte_count", "times"),
    [
        ("requests", 1, ACCOUNT.requests),
        ("bytes", ACCOUNT.byte_count // 4, 4),
        ("items", 1, ACCOUNT.items // 100 + 1),
    ],
)
def test_an_account_with_enough_under_way_waits_and_no_other(
    admission, reported, word, byte_count, times
):
    loads = []
    for _ in range(times):
        assert not admission.beyond(EVE)
        loads.append(admission.take(EVE, byte_count, publish(100) if word == "items" else None))
    assert word in admission.beyond(EVE)
    assert word in admission.beyond(EVES_OTHER), "all its resources are one account"
    assert not admission.beyond(ANN)
    assert reported == [], "one account cannot have the stream stopped"
    admission.done(loads.pop())
    assert not admission.beyond(EVE)
    for load in loads:
        admission.done(load)
    assert (admission.count, admission.byte_count, admission.reads) == (0, 0, 0)


def test_reads_have_a_bound_of_their_own_and_delay_no_other(admission, reported):
    loads = [admission.take(EVE, 100, ReadNodes(by=EVE)) for _ in range(ACCOUNT.reads)]
    assert "read" in admission.beyond_reading(EVE)
    assert not admission.beyond(EVE), "what changes something goes on"
    assert not admission.beyond_reading(ANN)
    others = [local(number) for number in range(EVERYBODY.reads - ACCOUNT.reads)]
    loads += [admission.take(one, 100, ReadNodes(by=one)) for one in others]
    assert "read" in admission.beyond_reading(ANN)
    assert (reported, admission.count) == ([], 0)
    for load in loads:
        admission.done(load)
    assert not admission.beyond_reading(ANN)


def test_a_server_that_is_not_ours_has_a_bound_for_all_its_accounts(admission):
    loads = [admission.take(foreign(number), 1) for number in range(DOMAIN.requests)]
    assert "the server far" in admission.beyond(foreign(10**6))
    assert not admission.beyond(Principal(Jid("a1@near/1")))
    assert not admission.beyond(ANN)
    admission.done(loads.pop())
    assert not admission.beyond(foreign(10**6))


def test_refused_requests_cost_what_they_took_and_that_is_forgiven(admission, clock):
    admission.charge(EVE, ACCOUNT.refused / 2)
    assert not admission.beyond(EVE)
    admission.charge(EVE, ACCOUNT.refused)
    assert "processor time" in admission.beyond(EVE)
    assert not admission.beyond(ANN)
    clock.now += ACCOUNT.refused / 2 / ACCOUNT.recovered + 0.01
    assert not admission.beyond(EVE)


def test_accounts_that_come_and_go_are_forgotten_and_what_their_server_has_cost_is_not(
    admission, monkeypatch
):
    monkeypatch.setattr(admission_module, "REMEMBERED", 100)
    used, load = admission._used, admission.take(ANN, 1)
    for number in range(1000):
        admission.charge(foreign(number), DOMAIN.refused / 500)
        assert len(used) <= 101
    assert "processor time" in admission.beyond(foreign(10**6))
    assert used[Jid("ann@x")].requests == 1
    admission.done(load)


def test_one_account_can_never_have_all(admission):
    """Neither can a server of strangers, so there is always room for somebody else."""
    for name in ("requests", "byte_count", "items", "reads"):
        one, server, all_ = (getattr(b, name) for b in (ACCOUNT, DOMAIN, EVERYBODY))
        assert one <= all_ / 2
        assert server <= all_ * 3 / 4


def test_however_many_take_all_that_they_get_there_is_room_for_one_who_has_nothing(admission):
    for number in range(100):
        while not admission.stops(local(number)):
            admission.take(local(number), 1)
        assert not admission.stops(ANN)


@pytest.mark.parametrize("n", [1, 2, 3, 7])
def test_accounts_that_take_all_in_turn_get_the_same(admission, n):
    while not all(admission.stops(local(number)) for number in range(n)):
        for number in range(n):
            if not admission.stops(local(number)):
                admission.take(local(number), 1)
    assert admission.count == pytest.approx(EVERYBODY.requests * n / (n + 1), abs=2 * n)


async def test_those_who_wait_come_in_in_turn_one_of_each_account(admission, clock):
    for by in (EVE, ANN):
        admission.charge(by, ACCOUNT.refused * 2)
    came = []

    async def come(by, name):
        await admission.turn(by)
        came.append(name)

    names = [(EVE, "e1"), (EVE, "e2"), (EVE, "e3"), (ANN, "a1"), (ANN, "a2")]
    waiting = [asyncio.create_task(come(by, name)) for by, name in names]
    await turns(5)
    assert came == []
    clock.now += 60
    async with asyncio.timeout(TIMEOUT):
        await asyncio.gather(*waiting)
    assert came == ["e1", "a1", "e2", "a2", "e3"]


async def test_who_is_charged_waits_until_it_is_forgiven(admission, clock):
    admission.charge(EVE, ACCOUNT.refused * 2)
    waiting = asyncio.create_task(admission.turn(EVE))
    await turns(5)
    assert not waiting.done()
    clock.now += 60
    async with asyncio.timeout(TIMEOUT):
        await waiting


async def test_who_does_not_wait_any_more_holds_up_nobody(admission):
    loads = [admission.take(EVE, 1) for _ in range(ACCOUNT.requests)]
    gone, next_one = (asyncio.create_task(admission.turn(EVE)) for _ in range(2))
    await turns(3)
    gone.cancel()
    admission.done(loads.pop())
    async with asyncio.timeout(TIMEOUT):
        await next_one


async def test_reads_that_wait_hold_up_nothing_else(admission):
    read = ReadNodes(by=EVE)
    loads = [admission.take(EVE, 1, read) for _ in range(ACCOUNT.reads)]
    reading = asyncio.create_task(admission.turn(EVE, reads=True))
    await turns(3)
    async with asyncio.timeout(TIMEOUT):
        await admission.turn(EVE)
    assert not reading.done()
    admission.done(loads.pop())
    async with asyncio.timeout(TIMEOUT):
        await reading
