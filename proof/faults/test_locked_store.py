"""Another process holds the store's lock: publishers are told to wait, others are served, nothing is lost."""

import asyncio
import sqlite3
from contextlib import closing

from harness.clients.crowd import crowd
from harness.processes.program import Program, write_config
from harness.servers.stub_server import StubServer
from harness.stores.recount import recount

NODE = """
[[node]]
name = "jobs"
queueing = true
publishers = ["etl@localhost"]
members = ["bee@localhost", "wasp@localhost"]
options = { "x-queueing#lock_timeout" = 2, "x-queueing#backoff_min" = 0 }
"""
BEE, WASP = "bee@localhost/x", "wasp@localhost/x"
WAIT = "wait internal-server-error"


async def test_a_store_that_another_process_holds(tmp_path):
    store, in_hand = tmp_path / "pubqueue.db", asyncio.Queue()
    async with StubServer(secret="a secret") as server, crowd(server) as people:
        people.handle = in_hand.put
        async with Program(write_config(tmp_path, server, NODE)) as program:
            assert await people.publish("a") == "result"
            await people.join(BEE, 1)
            assert (await in_hand.get()).item == "a"
            with closing(sqlite3.connect(store, isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                waiting = people.spawn(refused(people, "b"))
                await people.ping()  # who needs no store is served meanwhile
                assert not waiting.done()
                await waiting
                other.execute("ROLLBACK")
            # the lock of `a` has run out meanwhile: the reaper tries again by itself
            people.handle = people.work
            await people.publish_until_confirmed("b", "c")
            await people.all_done()
            await program.stop()
    # it was in the batch that found the store locked, or behind one (of the reaper's) that had not ended yet
    assert "database is locked" in program.log or "batch.stalled" in program.log
    assert "Traceback" not in program.log
    found = recount(store)
    people.ledger.compare(found)
    assert (found.items, people.ledger.committed) == ({}, {"a", "b", "c"})


async def test_a_worker_that_leaves_meanwhile_has_left(tmp_path):
    store, in_hand = tmp_path / "pubqueue.db", asyncio.Queue()
    node = NODE.replace('lock_timeout" = 2', 'lock_timeout" = 3600')
    async with StubServer(secret="a secret") as server, crowd(server) as people:
        people.handle = in_hand.put
        async with Program(write_config(tmp_path, server, node)) as program:
            assert await people.publish("a") == "result"
            await people.join(BEE, 1)
            assert (await in_hand.get()).item == "a"
            people.handle = people.work
            await people.join(WASP, 1)
            with closing(sqlite3.connect(store, isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                await people.leave(BEE)
                await refused(people, "b")
                other.execute("ROLLBACK")
            await people.until(lambda: "a" in people.ledger.committed)
            await program.stop()
    with closing(sqlite3.connect(store)) as look:
        assert look.execute("SELECT jid FROM subscription").fetchall() == [(WASP,)]
    assert "Traceback" not in program.log


async def refused(people, *names):
    assert await people.publish(*names) == WAIT
