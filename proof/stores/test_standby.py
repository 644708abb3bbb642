"""Behind Prosody, which admits one: a second instance waits, and takes over when the place is free, locks as they were."""

import os
import signal
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext

import psycopg
import pytest
from harness.clients.session import PUBSUB, condition, session
from harness.databases.postgres import SESSIONS, Postgres
from harness.processes.program import Program, write_config
from harness.servers.live import listener

from pubqueue_demo.prosody import Prosody

pytestmark = pytest.mark.e2e

NODE = """
[[node]]
name = "jobs"
queueing = true
publishers = ["etl@localhost"]
members = ["bee@localhost"]
"""
BEE = "bee@localhost/x"
WINDOW = """<options><x xmlns='jabber:x:data' type='submit'><field var='pubsub#queue_requests'>
<value>9</value></field></x></options>"""
JOB = "<job xmlns='x'/>"


@pytest.fixture(params=["sqlite", "postgres"])
def store(request, tmp_path):
    """Where both instances keep what they have."""
    with Postgres() if request.param == "postgres" else nullcontext() as server:
        yield server.address if server else tmp_path / "pubqueue.db"


@asynccontextmanager
async def instances(server, folder, store):
    """Two programs of one name on one store, not started yet."""
    async with AsyncExitStack() as ends:
        programs = []
        for name in ("one", "other"):
            (folder / name).mkdir()
            config = write_config(folder / name, listener(server), NODE, store=store)
            programs.append(Program(config))
            ends.push_async_callback(programs[-1].kill)
        yield programs


async def die(program, store):
    """Kill the program; PostgreSQL knows of it before the server has the place free for another, which takes its number then."""
    if isinstance(store, str):
        os.kill(program.pid, signal.SIGSTOP)
        with psycopg.connect(store) as server:
            server.execute(SESSIONS)
    await program.kill()


async def given(bee):
    """Return the item of the next delivery, with its token."""
    while (message := await bee.next_message()).find(".//{*}item") is None:
        pass
    lock = message.find("{urn:x-pubqueue:0}lock")
    return message.find(".//{*}item").get("id"), lock.get("token")


async def retract(bee, item):
    inner = f"<retract node='jobs'><item id='{item}'/></retract>"
    return condition(await bee.ask("set", f"<pubsub xmlns='{PUBSUB}'>{inner}</pubsub>"))


async def test_the_waiting_process_takes_over_and_a_restarted_one_waits_in_turn(store, tmp_path):
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(Prosody())
        for name in ("etl", "bee"):
            await server.account(name, "secret")
        one, other = await stack.enter_async_context(instances(server, tmp_path, store))
        await one.start()
        await other.start("waiting: another instance is queue.localhost on ")
        etl = await stack.enter_async_context(session(server, "etl@localhost/x"))
        bee = await stack.enter_async_context(session(server, BEE))
        inner = f"<subscribe node='jobs' jid='{BEE}'/>{WINDOW}"
        await bee.ask("set", f"<pubsub xmlns='{PUBSUB}'>{inner}</pubsub>")
        assert condition(await etl.publish(a=JOB, b=JOB)) == "result"
        locks = {await given(bee), await given(bee)}
        assert {item for item, _ in locks} == {"a", "b"}

        await die(one, store)
        await other.says("ready")
        assert {await given(bee), await given(bee)} == locks  # said again, for it may not have left
        assert await retract(bee, "a") == "result"

        await one.start("waiting")
        await one.kill()  # who waits has no number, so nobody takes it for one of those that died
        await one.start("waiting")
        await die(other, store)
        await one.says("ready")
        assert await given(bee) in locks
        assert await retract(bee, "b") == "result"
        assert condition(await etl.publish(c=JOB)) == "result"
        item, _ = await given(bee)
        assert (item, await retract(bee, item)) == ("c", "result")

        await other.start("waiting")
        await other.stop()
        await one.stop()
    assert "instance.taken_over" not in one.log + other.log
    assert [program.log.count("event=stream.place_taken") for program in (one, other)] == [2, 2]
    assert "level=error" not in one.log + other.log


async def test_a_process_that_finds_its_place_taken_waits_for_it(tmp_path):
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(Prosody())
        store = tmp_path / "pubqueue.db"
        one, other = await stack.enter_async_context(instances(server, tmp_path, store))
        await one.start()
        await other.start("waiting")
        os.kill(one.pid, signal.SIGSTOP)
        await server.kill()
        await server.start()
        await other.says("ready")
        os.kill(one.pid, signal.SIGCONT)
        await one.says("waiting")
        await other.stop()
        await one.says("ready")
        await one.stop()
    assert one.log.count("event=service.place_lost") == 1
