"""A thousand workers join, work and leave with items in hand, while items keep coming in."""

import asyncio
import random

import pytest
from harness.clients.crowd import crowd
from harness.processes.program import Program, write_config
from harness.servers.stub_server import StubServer
from harness.stores.recount import recount

NODE = """
[[node]]
name = "jobs"
queueing = true
publishers = ["etl@localhost"]
[node.options]
"pubsub#access_model" = "open"
"x-queueing#backoff_min" = 0
"x-queueing#max_failures" = 1000
"""
WORKERS, STAYS, AT_ONCE = 1000, 2, 50


class Worker:
    """Comes, does so many items, and goes with the next one in hand; so often."""

    def __init__(self, people, number, chance):
        self.jid = f"bee{number}@localhost/x"
        self._people = people
        self._window = chance.randint(1, 3)
        self._stays = [chance.randint(0, 3) for _ in range(STAYS)]
        self.given = asyncio.Queue()

    async def live(self):
        """Return when it has had all that it came for: who starves never does."""
        for items in self._stays:
            await self._people.join(self.jid, self._window)
            for _ in range(items):
                await self._people.work(await self.given.get())
            await self.given.get()
            await self._people.leave(self.jid)
            self.given = asyncio.Queue()


@pytest.mark.covers("Q-014", "Q-042")
async def test_a_thousand_workers_come_and_go(tmp_path):
    chance = random.Random(5)
    async with StubServer(secret="a secret") as server, crowd(server) as people:
        workers = {it.jid: it for it in (Worker(people, n, chance) for n in range(WORKERS))}

        async def give(delivery):
            workers[delivery.to].given.put_nowait(delivery)

        people.handle = give
        async with Program(write_config(tmp_path, server, NODE)) as program:
            publishing = people.spawn(publish(people))
            await asyncio.gather(*(it.live() for it in workers.values()))
            publishing.cancel()
            people.handle = people.work
            await people.join("last@localhost/x", 100)
            await people.all_done()
            await program.kill()
    ledger = people.ledger
    ledger.compare(recount(tmp_path / "pubqueue.db"))
    assert len(ledger.given) == WORKERS + 1
    assert ledger.redelivered >= WORKERS * STAYS  # what they had left with


async def publish(people):
    for turn in range(1000):
        await people.publish_until_confirmed(*(f"i{turn}.{n}" for n in range(AT_ONCE)))
