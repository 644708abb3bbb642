"""Large requests take turns: as many as there is room for, account by account; small ones do not wait."""

import asyncio

import pytest
from harness.patience import until

from pubqueue.faces.grpc.callers import LARGE, ROOM, Turns, Unread
from pubqueue.faces.grpc.wire import v1 as m

HALF = ROOM // 2


class Crowd:
    """Requests that take their turns, and stay until they are let go."""

    def __init__(self):
        self.turns, self.inside, self.gates = Turns(), [], {}

    def come(self, name, size, account=None):
        self.gates[name] = asyncio.Event()
        return asyncio.create_task(self._stay(name, size, account or name))

    async def _stay(self, name, size, account):
        async with self.turns.of(size, account):
            self.inside.append(name)
            await self.gates[name].wait()
            self.inside.remove(name)

    async def are(self, *names):
        await until(lambda: self.inside == list(names))


@pytest.fixture
async def crowd():
    one = Crowd()
    yield one
    for gate in one.gates.values():
        gate.set()


async def test_as_many_as_there_is_room_for_go_on_in_their_order(crowd):
    tasks = [crowd.come(name, HALF) for name in "abcd"]
    await crowd.are("a", "b")
    crowd.gates["b"].set()
    await crowd.are("a", "c")
    crowd.gates["a"].set()
    await crowd.are("c", "d")
    for name in "cd":
        crowd.gates[name].set()
    await asyncio.gather(*tasks)


async def test_an_account_has_half_of_the_room_and_others_do_not_wait_for_it(crowd):
    for name in "abc":
        crowd.come(name, HALF, "eve")
    await crowd.are("a")
    crowd.come("other", HALF)
    await crowd.are("a", "other")
    crowd.come("third", HALF)
    crowd.gates["other"].set()
    await crowd.are("a", "third")  # and b waits for a, which is of its account
    crowd.gates["a"].set()
    await crowd.are("third", "b")


async def test_accounts_take_turns(crowd):
    crowd.come("first", ROOM)
    await crowd.are("first")
    for name, account in (("a", "eve"), ("b", "eve"), ("c", "eve"), ("d", "bee")):
        crowd.come(name, ROOM, account)
    await until(lambda: len(crowd.gates) == 5)
    for name, following in zip(("first", "a", "d", "b"), "adbc", strict=True):
        crowd.gates[name].set()
        await crowd.are(following)


async def test_small_ones_do_not_wait(crowd):
    crowd.come("large", ROOM)
    crowd.come("waiting", ROOM)
    await crowd.are("large")
    crowd.come("small", LARGE - 1)
    await crowd.are("large", "small")


async def test_one_that_is_larger_than_the_room_goes_alone(crowd):
    crowd.come("huge", ROOM * 2)
    await crowd.are("huge")
    crowd.come("large", LARGE)
    crowd.gates["huge"].set()
    await crowd.are("large")


async def test_those_that_give_up_are_passed_over_and_one_that_fails_makes_room(crowd):
    first = crowd.come("a", ROOM)
    await crowd.are("a")
    gone = crowd.come("b", ROOM)
    crowd.come("c", ROOM)
    await until(lambda: len(crowd.gates) == 3)
    gone.cancel()
    await asyncio.gather(gone, return_exceptions=True)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    await until(lambda: "c" in crowd.inside)


def test_a_request_is_read_once_and_garbage_is_none():
    whole = Unread(m.Topic, m.Topic(name="a").SerializeToString())
    assert (whole.size, whole.read().name) == (3, "a")
    assert Unread(m.Topic, b"\xff\xff").read() is None
