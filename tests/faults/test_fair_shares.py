"""Equal workers get equal shares, end to end: Jain's fairness index over ten thousand deliveries."""

import asyncio
import random

import pytest
from harness.crowd import crowd
from harness.program import Program, write_config
from harness.recount import recount
from harness.server import StubServer

NODE = """
[[node]]
name = "jobs"
queueing = true
publishers = ["etl@localhost"]
members = ["bee0@localhost", "bee1@localhost", "bee2@localhost", "bee3@localhost", "bee4@localhost", "bee5@localhost", "bee6@localhost", "bee7@localhost"]
"""
ITEMS, AT_ONCE = 10_000, 50
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
