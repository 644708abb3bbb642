"""The machine's clock is set by an hour, there and back, under load: locks end in their time, nothing is lost."""

import asyncio
import itertools
import sys

import pytest
from harness.clients.crowd import crowd
from harness.processes import shifted
from harness.processes.program import Program, write_config
from harness.processes.shifted import set_clock
from harness.servers.stub_server import StubServer
from harness.stores.recount import recount

NODE = """
[[node]]
name = "jobs"
queueing = true
publishers = ["etl@localhost"]
members = ["ant@localhost", "bee@localhost", "sleeper@localhost"]
[node.options]
"x-queueing#lock_timeout" = 3
"x-queueing#backoff_min" = 0
"""
HOUR = 3600
BEES = {"ant@localhost/x": 3, "bee@localhost/x": 5}
SLEEPER = "sleeper@localhost/x"


class Sleeper:
    """Lets one item lie whenever it is told to; else everybody works."""

    def __init__(self, people):
        self._people = people
        self._lies = None
        people.handle = self.handle

    async def let_one_lie(self):
        self._lies = asyncio.get_running_loop().create_future()
        return await self._lies

    async def handle(self, delivery):
        if delivery.to == SLEEPER and self._lies and not self._lies.done():
            self._lies.set_result(delivery)
        else:
            await self._people.work(delivery)


def shifted_program(tmp_path, server):
    clock = tmp_path / "clock"
    set_clock(clock, 0)
    command = (sys.executable, "-I", shifted.__file__, str(clock))
    return clock, Program(write_config(tmp_path, server, NODE), command)


@pytest.mark.covers("Q-045")
@pytest.mark.parametrize("steps", [(-HOUR, 0), (HOUR, 0)], ids=["back first", "forward first"])
async def test_the_clock_is_set_under_load(steps, tmp_path):
    async with StubServer(secret="a secret") as server, crowd(server) as people:
        clock, starting = shifted_program(tmp_path, server)
        async with starting as program:
            sleeper = Sleeper(people)
            for bee, window in (BEES | {SLEEPER: 1}).items():
                await people.join(bee, window)
            publishing = people.spawn(publish(people))
            for step in steps:
                lying = await sleeper.let_one_lie()
                set_clock(clock, step)
                await ended(people, lying)
            publishing.cancel()
            await people.all_done()
            await program.stop()
    assert "Traceback" not in program.log
    people.ledger.compare(recount(tmp_path / "pubqueue.db"))
    assert (
        people.ledger.redelivered < len(people.ledger.committed) / 2
    )  # what was locked at the time


@pytest.mark.covers("Q-055")
async def test_the_clock_was_set_back_while_it_was_down(tmp_path):
    async with StubServer(secret="a secret") as server, crowd(server) as people:
        clock, starting = shifted_program(tmp_path, server)
        async with starting as program:
            sleeper = Sleeper(people)
            await people.join(SLEEPER, 1)
            lying = people.spawn(sleeper.let_one_lie())
            await people.publish_until_confirmed("a")
            await lying
            await program.kill()
            set_clock(clock, -HOUR)
            await program.start()
            await people.join(SLEEPER, 1)  # it has its lock still, and will have for three seconds
            await people.all_done()
            await program.stop()
    people.ledger.compare(recount(tmp_path / "pubqueue.db"))


async def ended(people, delivery):
    """Return when the lock has ended, long before an hour is over."""
    await people.until(lambda: not people.ledger.holds(delivery.to, delivery.item, delivery.token))


async def publish(people):
    ledger = people.ledger
    for turn in itertools.count():
        await people.publish_until_confirmed(*(f"i{turn}.{n}" for n in range(20)))
        await people.until(lambda: len(ledger.confirmed) - len(ledger.committed) < 200)
