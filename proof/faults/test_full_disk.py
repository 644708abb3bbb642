"""The disk is full: publishers are told to wait, nothing confirmed is lost, and it goes on when there is room.

A limit on the size of the program's files stands for the end of the disk: writing fails beyond it.
"""

import asyncio
import resource

import pytest
from harness.clients.crowd import crowd
from harness.databases.small_disk import SmallDisk
from harness.patience import until
from harness.processes.program import COLD, Program, write_config
from harness.servers.stub_server import StubServer
from harness.stores.recount import recount

NODE = """
[[node]]
name = "jobs"
queueing = true
publishers = ["etl@localhost"]
members = ["bee@localhost"]
options = { "pubsub#max_payload_size" = 262144 }
"""
BEE = "bee@localhost/x"
WAIT = "wait internal-server-error"


def allow(program, size):
    """Let the program's files grow to so many bytes."""
    resource.prlimit(program.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


@pytest.mark.parametrize(
    ("many", "size"), [(1, 10), (30, 50_000)], ids=["in the commit", "in the middle of a batch"]
)
async def test_a_full_disk(tmp_path, many, size):
    payload = f"<job xmlns='x'>{'x' * size}</job>"
    in_hand = asyncio.Queue()
    async with StubServer(secret="a secret") as server, crowd(server) as people:
        people.handle = in_hand.put
        async with Program(write_config(tmp_path, server, NODE)) as program:
            await people.join(BEE, 2)
            assert await people.publish("a", "b", "c") == "result"
            first, second = await in_hand.get(), await in_hand.get()
            allow(program, max(it.stat().st_size for it in tmp_path.glob("pubqueue.db*")))
            names = await until_it_is_full(people, many, payload)
            for _ in range(3):
                assert await people.publish(*names, payload=payload) == WAIT
                # a little room may be left, too little for what is published
                assert await people.retract(first) in {WAIT, "result"}
            assert program.log.count("event=batch.lost") >= 4

            allow(program, resource.RLIM_INFINITY)
            assert await people.publish(*names, payload=payload) == "result"
            assert await people.retract(second) == "result"
            assert (await in_hand.get()).item in people.ledger.confirmed
            await program.kill()
    assert "Traceback" not in program.log
    found = recount(tmp_path / "pubqueue.db")
    people.ledger.compare(found)
    assert found.of("jobs").keys() == people.ledger.confirmed - people.ledger.committed


async def test_a_disk_that_is_full_for_the_log_too(tmp_path):
    async with (
        StubServer(secret="a secret") as server,
        crowd(server) as people,
        Program(write_config(tmp_path, server, NODE)) as program,
    ):
        assert await people.publish("a") == "result"
        allow(program, 0)
        assert await people.publish("b") == WAIT
        await people.ping()
        allow(program, resource.RLIM_INFINITY)
        assert await people.publish("b") == "result"
        await program.stop()
    found = recount(tmp_path / "pubqueue.db")
    people.ledger.compare(found)
    assert found.of("jobs").keys() == {"a", "b"}


async def test_a_disk_that_is_full_at_the_start(tmp_path):
    """It is waited for, as it is while the service runs."""
    async with StubServer(secret="a secret") as server, crowd(server) as people:
        with SmallDisk(4 << 20) as disk:
            disk.fill()
            config = write_config(tmp_path, server, NODE, store=f"sqlite:///{disk.folder}/jobs.db")
            program = Program(config, (*disk.inside, *COLD))
            starting = asyncio.create_task(program.start())
            await until(lambda: program.log.count("event=store.unreachable") >= 2)
            assert not starting.done()
            disk.clear()
            await starting
            assert await people.publish("a") == "result"
            await program.stop()
    assert "Traceback" not in program.log


async def until_it_is_full(people, many, payload):
    """Publish until there is no room for so many; return those that were refused."""
    for turn in range(1000):
        names = [f"{turn}.{n}" for n in range(many)]
        answer = await people.publish(*names, payload=payload)
        if answer != "result":
            assert answer == WAIT
            return names
    raise AssertionError("the disk does not become full")
