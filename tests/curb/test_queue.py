"""Frames that have not come whole: whoever has begun first is ended when all together are too large."""

import asyncio

from curb.curbs import Curb, RawClient
from harness.patience import until

from pubqueue.curb.queue import MAX_UNFINISHED, SMALL, Unfinished

FRAME = b"SEND\ndestination:.\ncontent-length:262000\n\n" + b"x" * 200_000
CLIENTS = 300
THAT_FIT = MAX_UNFINISHED // 200_000
MIB = 1 << 20


class Sender:
    def __init__(self):
        self.is_ended = False

    def give_up(self):
        self.is_ended = True


def test_the_oldest_unfinished_frame_is_ended_first():
    unfinished = Unfinished(10 * SMALL)
    first, second, third = Sender(), Sender(), Sender()
    for one in (first, second):
        unfinished.note(one, 5 * SMALL, is_new=True)
    unfinished.note(third, 2 * SMALL, is_new=True)
    assert [one.is_ended for one in (first, second, third)] == [True, False, False]
    assert unfinished.size == 7 * SMALL
    unfinished.note(second, 6 * SMALL, is_new=False)
    unfinished.note(third, 5 * SMALL, is_new=False)
    assert [one.is_ended for one in (second, third)] == [True, False]
    assert unfinished.size == 5 * SMALL


def test_a_client_that_has_begun_another_frame_comes_last():
    unfinished = Unfinished(10 * SMALL)
    first, second, third = Sender(), Sender(), Sender()
    unfinished.note(first, 4 * SMALL, is_new=True)
    unfinished.note(second, 4 * SMALL, is_new=True)
    unfinished.note(first, 4 * SMALL, is_new=True)
    unfinished.note(third, 4 * SMALL, is_new=True)
    assert [one.is_ended for one in (first, second, third)] == [False, True, False]


def test_small_ones_are_not_counted_and_what_is_forgotten_neither():
    unfinished = Unfinished(SMALL)
    many = [Sender() for _ in range(100)]
    for one in many:
        unfinished.note(one, SMALL, is_new=True)
    assert unfinished.size == 0
    unfinished = Unfinished(4 * SMALL)
    for one in many:
        unfinished.note(one, 3 * SMALL, is_new=True)
        unfinished.forget(one)
    assert unfinished.size == 0
    assert not any(one.is_ended for one in many)


def memory(pid):
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * 4096


async def test_many_stalled_clients_end_each_other_and_no_other(tmp_path):
    async with Curb(tmp_path / "j", "4MiB") as curb:
        line = await RawClient.to(curb.port)
        await line.receipt("SEND", b"before", destination=".")
        before = memory(curb.process.pid)
        stalled = [await RawClient.to(curb.port) for _ in range(CLIENTS)]
        for one in stalled:
            one.say(FRAME)
        hearing = [asyncio.create_task(one.hear()) for one in stalled]
        await until(lambda: sum(one.done() for one in hearing) == CLIENTS - THAT_FIT)
        assert {one.result().headers["message"] for one in hearing if one.done()} == {"too slow"}
        assert memory(curb.process.pid) - before < 90 * MIB  # and not 57 more
        fresh = await RawClient.to(curb.port)
        fresh.say(FRAME)
        fresh.say(b"x" * 62_000 + b"\0")
        await fresh.receipt("SEND", b"after", destination=".")
        for one in hearing:
            one.cancel()
        await asyncio.gather(*hearing, return_exceptions=True)
