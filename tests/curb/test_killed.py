"""`pubqueue curb` under SIGKILL: nothing confirmed is lost, and nothing confirmed comes back."""

import asyncio
from contextlib import suppress
from functools import partial
from random import Random

from curb.curbs import Curb, RawClient
from harness.patience import until

KILLS = 8
BODIES = 40


async def publish(port, bodies, sent):
    """Send what is not confirmed yet, and note what is."""
    with suppress(EOFError, ConnectionError):
        line = await RawClient.to(port)
        for body in bodies:
            if body not in sent:
                line.frame("SEND", body, destination=".", receipt=body.decode())
        while True:
            found = await line.hear()
            assert found.command == "RECEIPT"
            sent.add(found.headers["receipt-id"].encode())


async def work(port, done, coming_back, acked):
    """Acknowledge what comes, and note what was confirmed; what comes after that has come back."""
    with suppress(EOFError, ConnectionError):
        line = await RawClient.to(port)
        line.subscribe()
        while True:
            found = await line.hear()
            if found.command == "RECEIPT":
                done.add(found.headers["receipt-id"])
                continue
            number = found.headers["ack"]
            coming_back |= {number} & done
            acked.add(found.body)
            line.frame("ACK", id=number, receipt=number)


async def test_killed_between_any_two_frames_it_keeps_its_word(tmp_path):  # C36
    random = Random(11)
    curb = Curb(tmp_path / "curb.journal", "64KiB")
    sent, done, coming_back, acked = set(), set(), set(), set()
    for kill in range(KILLS):
        await curb.start()
        bodies = [b"%d-%d" % (kill, number) for number in range(BODIES)]
        goal = len(sent) + len(done) + random.randrange(BODIES)
        clients = [asyncio.create_task(publish(curb.port, bodies, sent))]
        clients += [
            asyncio.create_task(work(curb.port, done, coming_back, acked)) for _ in range(2)
        ]
        await until(partial(is_time, goal, sent, done, clients))
        await curb.kill()
        await asyncio.gather(*clients)
    await curb.start()
    left = await all_of(curb.port)
    await curb.stop()
    assert coming_back == set()
    assert not done & set(left)
    assert sent <= acked | set(left.values())
    assert sent


def is_time(goal, sent, done, clients):
    return len(sent) + len(done) >= goal or all(one.done() for one in clients)


async def all_of(port):
    """Return all messages that are left, by their numbers."""
    found = {}
    line = await RawClient.to(port)
    line.frame("SUBSCRIBE", id="n", destination="./count")
    count = int((await line.hear()).body)
    line.frame("UNSUBSCRIBE", id="n")
    line.subscribe()
    while len(found) < count:
        message = await line.hear()
        if message.headers["destination"] == ".":
            found[message.headers["ack"]] = message.body
            line.frame("ACK", id=message.headers["ack"])
    return found
