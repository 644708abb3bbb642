"""Equal workers get equal shares, end to end, from one instance and from two: Jain's fairness index over the deliveries."""

import asyncio
import random
from contextlib import AsyncExitStack

import pytest
from harness.clients.crowd import crowd
from harness.processes.program import Program, write_config
from harness.servers.shared_server import SharedServer
from harness.servers.stub_server import StubServer
from harness.stores.postgres_recount import recount_postgres
from harness.stores.recount import recount

NODE = """
[[node]]
name = "jobs"
queueing = true
publishers = ["etl@localhost"]
members = ["bee0@localhost", "bee1@localhost", "bee2@localhost", "bee3@localhost", "bee4@localhost", "bee5@localhost", "bee6@localhost", "bee7@localhost"]
"""
ITEMS, AT_ONCE = 10_000, 50
OF_TWO = 2_000
BEES = [f"bee{number}@localhost/x" for number in range(8)]
WINDOW = 4


def jain(shares):
    """Return Jain's fairness index: 1 is perfect, 1/n is one who takes all."""
    return sum(shares) ** 2 / (len(shares) * sum(share**2 for share in shares))


@pytest.mark.covers("Q-017", "Q-014")
async def test_ten_thousand_items_are_shared_fairly(tmp_path):
    chance = random.Random(3)
    async with StubServer(secret="a secret") as server, crowd(server) as people:

        async def work_a_while(delivery):
            await asyncio.sleep(chance.uniform(0, 0.01))
            await people.work(delivery)

        people.handle = work_a_while
        async with Program(write_config(tmp_path, server, NODE)) as program:
            for bee in BEES:
                await people.join(bee, WINDOW)
            for first in range(0, ITEMS, AT_ONCE):
                await people.publish_until_confirmed(*(f"i{first + n}" for n in range(AT_ONCE)))
            await people.all_done()
            await program.stop()
    people.ledger.compare(recount(tmp_path / "pubqueue.db"))
    shares = [people.ledger.given[bee] for bee in BEES]
    assert sum(shares) == ITEMS
    assert people.ledger.fullest == WINDOW
    print(f"Jain's index {jain(shares):.6f} of {shares}")
    assert jain(shares) >= 0.99


async def shared_by_two(store, folder):
    """Have two instances hand out what is in a store; return what each worker was given, and the ledger."""
    chance = random.Random(3)
    async with SharedServer(chance, secret="a secret") as server, crowd(server) as people:
        server.on_lost = lambda: None  # the other one is still there

        async def work_a_while(delivery):
            await asyncio.sleep(chance.uniform(0, 0.01))
            await people.work(delivery)

        people.handle = work_a_while
        async with AsyncExitStack() as programs:
            for number in range(2):
                (folder / f"instance{number}").mkdir()
                config = write_config(folder / f"instance{number}", server, NODE, store=store)
                await programs.enter_async_context(Program(config))
            for bee in BEES:
                await people.join(bee, WINDOW)
                # the next delivery may overtake the answer that made room for it: they come from two
                people.ledger.joined(bee, 2 * WINDOW)
            for first in range(0, OF_TWO, AT_ONCE):
                await people.publish_until_confirmed(*(f"i{first + n}" for n in range(AT_ONCE)))
            await people.all_done()
    return [people.ledger.given[bee] for bee in BEES], people.ledger


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
async def test_two_instances_share_as_fairly_as_one(kind, tmp_path, request):
    if kind == "sqlite":
        shares, ledger = await shared_by_two(tmp_path / "pubqueue.db", tmp_path)
        ledger.compare(recount(tmp_path / "pubqueue.db"))
    else:
        postgres = request.getfixturevalue("postgres")
        shares, ledger = await shared_by_two(postgres.address, tmp_path)
        ledger.compare(recount_postgres(postgres))
    assert sum(shares) == OF_TWO
    print(f"Jain's index {jain(shares):.6f} of {shares}")
    assert jain(shares) >= 0.99
