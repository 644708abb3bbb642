"""The server stops reading: the component stops taking work before much has piled up, and goes on afterwards."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

from harness.clients.crowd import crowd
from harness.patience import until
from harness.processes.program import COLD, Program, write_config
from harness.servers.stub_server import StubServer
from harness.stores.recount import recount

NODE = """
[[node]]
name = "jobs"
queueing = true
publishers = ["etl@localhost"]
members = ["bee0@localhost", "bee1@localhost", "bee2@localhost"]
options = { "pubsub#max_payload_size" = 262144 }
"""
MIB = 1024 * 1024
ITEMS, PAYLOAD = 600, 100_000
BEES = [f"bee{number}@localhost/x" for number in range(3)]
LOOK = 0.2


async def test_a_server_that_does_not_read(tmp_path):
    payload = f"<job xmlns='x'>{'x' * PAYLOAD}</job>"
    store = tmp_path / "pubqueue.db"
    async with (
        StubServer(secret="a secret") as server,
        crowd(server) as people,
        Program(write_config(tmp_path, server, NODE), COLD) as program,
    ):
        for number in range(0, ITEMS, 2):
            await people.publish_until_confirmed(str(number), str(number + 1), payload=payload)
        before = memory(program, "VmRSS", anew=True)
        server.stop_reading()
        for bee in BEES:
            people.spawn(people.join(bee, 1000))
        taken = await settled(store)
        assert 0 < taken < ITEMS
        server.read_on()
        await people.all_done()
        grown = memory(program, "VmHWM") - before
        await program.stop()
    people.ledger.compare(recount(store))
    assert people.ledger.redelivered == 0
    assert grown < 16 * MIB < ITEMS * PAYLOAD / 2


def memory(program, what, *, anew=False):
    """Return what the kernel counts of the program's memory, in bytes; have its peak begin `anew`."""
    folder = Path("/proc", str(program.pid))
    if anew:
        (folder / "clear_refs").write_text("5")
    return int(re.search(rf"{what}:\s+(\d+) kB", (folder / "status").read_text())[1]) * 1024


async def settled(store):
    """Return how many items are locked, once there are some and no more come."""
    counts = [0]
    with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as look:

        def is_settled():
            counts.extend(*look.execute("SELECT count(*) FROM item WHERE state = 'locked'"))
            return counts[-1] == counts[-2] > 0

        await until(is_settled, every=LOOK)
    return counts[-1]
