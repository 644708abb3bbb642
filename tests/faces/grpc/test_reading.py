"""Messages of a connection are read a few at a time, until it is known how large they are."""

import asyncio
from types import SimpleNamespace

import pytest
from harness.patience import until

from pubqueue.faces.grpc.callers import AT_ONCE, FIRST_READS, HELD, LARGE, Reading


class Calls:
    """Calls of connections, whose messages come when they are let in."""

    def __init__(self):
        self.reading, self.begun, self.gates = Reading(), [], {}

    def come(self, name, size, account="etl"):
        self.gates[name] = asyncio.Event()

        async def message():
            self.begun.append(name)
            await self.gates[name].wait()
            return SimpleNamespace(size=size)

        return asyncio.create_task(self.reading.read(("ipv4:x", account), message))

    async def are_begun(self, *names):
        await until(lambda: self.begun == list(names))

    def let(self, *names):
        for name in names:
            self.gates[name].set()


@pytest.fixture
def calls():
    return Calls()


async def test_a_few_are_read_at_first_and_more_if_they_are_small(calls):
    assert FIRST_READS == 2
    tasks = [calls.come(name, 10) for name in "abcdefgh"]
    await calls.are_begun(*"ab")
    calls.let("a")
    await calls.are_begun(*"abcde")  # four at a time
    calls.let(*"bcdefgh")
    assert [one.size for one in await asyncio.gather(*tasks)] == [10] * 8


async def test_large_ones_are_read_as_many_at_a_time_as_fit_until_too_much_waits(calls):
    size = AT_ONCE // 4
    tasks = [calls.come(name, size) for name in "abcdefgh"]
    await calls.are_begun(*"ab")
    calls.let("a")
    await calls.are_begun(*"abcde")
    calls.let("b")
    await asyncio.gather(*tasks[:2])
    assert 2 * size >= HELD
    calls.let(*"cde")
    await asyncio.gather(*tasks[:5])
    assert calls.begun == list("abcde"), "no more are read before one is done"
    for _ in range(3):
        calls.reading.done(("ipv4:x", "etl"), size)
    assert calls.begun == list("abcde")
    calls.reading.done(("ipv4:x", "etl"), size)
    await calls.are_begun(*"abcdefgh")
    calls.let(*"fgh")
    await asyncio.gather(*tasks)


async def test_other_accounts_on_the_connection_do_not_wait(calls):
    tasks = [calls.come(name, LARGE, "etl") for name in "abc"]
    await calls.are_begun(*"ab")
    tasks.append(calls.come("d", 10, "other"))
    await calls.are_begun(*"abd")
    calls.let(*"abcd")
    await asyncio.gather(*tasks)


async def test_a_call_that_ends_before_its_turn_or_while_it_is_read_makes_room(calls):
    tasks = [calls.come(name, 10) for name in "abcd"]
    await calls.are_begun(*"ab")
    for one in (tasks[2], tasks[0]):
        one.cancel()
    await asyncio.gather(tasks[0], tasks[2], return_exceptions=True)
    await calls.are_begun(*"abd")
    calls.let(*"bd")
    await asyncio.gather(tasks[1], tasks[3])


async def test_a_call_that_ends_at_the_moment_of_its_turn_makes_room(calls):
    loop = asyncio.get_running_loop()
    gate = asyncio.Event()

    async def message():
        await gate.wait()
        loop.call_soon(ending.cancel)  # it has its turn by then, and has not gone on
        return SimpleNamespace(size=10)

    first = asyncio.create_task(calls.reading.read(("ipv4:x", "etl"), message))
    second = calls.come("b", 10)
    await calls.are_begun("b")
    ending, last = calls.come("c", 10), calls.come("d", 10)
    gate.set()
    await first
    await calls.are_begun("b", "d")
    assert ending.cancelled()
    calls.let("b", "d")
    await asyncio.gather(second, last)


async def test_a_message_that_cannot_be_read_makes_room(calls):
    async def broken():
        raise EOFError

    for _ in range(FIRST_READS + 1):
        with pytest.raises(EOFError):
            await calls.reading.read(("ipv4:x", "etl"), broken)
