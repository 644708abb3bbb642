"""Frames that have not come whole: whoever has begun first is ended when all together are too large."""

import asyncio

from curb.curbs import Curb, RawClient
from harness.patience import until

from pubqueue.curb.server import MAX_KEPT

FRAME = b"SEND\ndestination:.\ncontent-length:262000\n\n" + b"x" * 200_000
CLIENTS = 300
THAT_FIT = MAX_KEPT // 200_000
MIB = 1 << 20


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
