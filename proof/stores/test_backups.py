"""Backups of a service under load: all that was confirmed before is in each, and a service goes on from them.

Behind Prosody with a file, behind ejabberd with two instances on one PostgreSQL; each is restored into the other kind of store.
"""

import asyncio
import os
import sqlite3
from contextlib import AsyncExitStack, closing, suppress

import pytest
from harness.clients.session import PUBSUB, SERVICE, condition, session
from harness.databases.postgres import Postgres
from harness.patience import TIMEOUT
from harness.processes.program import Program, write_config
from harness.servers.ejabberd import Ejabberd
from harness.servers.live import listener
from harness.starts import warm_start

from pubqueue_demo.prosody import Prosody

pytestmark = pytest.mark.e2e

NODE = """
[[node]]
name = "jobs"
queueing = true
publishers = ["etl@localhost"]
members = ["bee@localhost"]
options = { "x-queueing#event_log" = 1, "x-queueing#lock_timeout" = 3600 }
"""
BEE = "bee@localhost/x"
WINDOW = """<options><x xmlns='jabber:x:data' type='submit'><field var='pubsub#queue_requests'>
<value>4</value></field></x></options>"""
SUBSCRIBE = f"<pubsub xmlns='{PUBSUB}'><subscribe node='jobs' jid='{BEE}'/>{WINDOW}</pubsub>"
BACKUPS = 3
STEP = 40
"""So many items are confirmed before each backup."""


async def pubqueue(*words):
    process = await warm_start.pubqueue(
        *map(str, words),
        env={name: value for name, value in os.environ.items() if "PUBQUEUE" not in name},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(TIMEOUT):
        said, _ = await process.communicate()
    return process.returncode, said.decode()


class Load:
    """Somebody who publishes, and a worker that retracts what it gets, but for one of three; it keeps those."""

    def __init__(self):
        self.confirmed = []
        self.more = asyncio.Condition()
        self.given = {}

    async def publish(self, etl):
        for number in range(100_000):
            name = f"i{number}"
            assert condition(await etl.publish(**{name: "<job xmlns='x'/>"})) == "result"
            async with self.more:
                self.confirmed.append(name)
                self.more.notify_all()

    async def work(self, bee):
        while True:
            item, token = await delivery(bee)
            self.given[item] = token
            if int(item[1:]) % 100:
                await retract(bee, item)

    async def reached(self, count):
        async with self.more, asyncio.timeout(TIMEOUT):
            await self.more.wait_for(lambda: len(self.confirmed) >= count)


async def delivery(bee):
    """Return the next item, and the token of its lock."""
    while (lock := (message := await bee.messages.get()).find(".//{*}lock")) is None:
        pass
    return message.find(".//{*}item").get("id"), int(lock.get("token"))


async def retract(bee, item):
    inner = f"<retract node='jobs'><item id='{item}'/></retract>"
    assert condition(await bee.ask("set", f"<pubsub xmlns='{PUBSUB}'>{inner}</pubsub>")) == "result"


async def loaded(server, store, folder, instances):
    """Take backups while work goes on; return them, each with what had been confirmed before it began."""
    async with AsyncExitStack() as stack:
        for number in range(instances):
            (folder / str(number)).mkdir()
            config = write_config(folder / str(number), listener(server), NODE, store=store)
            await stack.enter_async_context(Program(config))
        etl = await stack.enter_async_context(session(server, "etl@localhost/x"))
        bee = await stack.enter_async_context(session(server, BEE))
        assert condition(await bee.ask("set", SUBSCRIBE)) == "result"
        await bee.client.send(f"<presence to='{SERVICE}'/>")
        load = Load()
        work = [asyncio.create_task(one) for one in (load.publish(etl), load.work(bee))]
        taken = []
        for number in range(1, BACKUPS + 1):
            await load.reached(number * STEP)
            before = list(load.confirmed)
            file = folder / f"{number}.backup"
            code, said = await pubqueue("backup", "--config", config, file)
            assert code == 0, said
            taken.append((file, before))
        for one in work:
            assert not one.done(), "nobody was disturbed"
            one.cancel()
            with suppress(asyncio.CancelledError):
                await one
    return taken


@pytest.mark.parametrize(("kind", "instances"), [(Prosody, 1), (Ejabberd, 2)])
async def test_what_is_confirmed_is_in_it_and_a_service_goes_on_from_it(kind, instances, tmp_path):
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(kind())
        for name in ("etl", "bee"):
            await server.account(name, "secret")
        postgres = stack.enter_context(Postgres())
        there, here = postgres.address, f"sqlite://{tmp_path}/pubqueue.db"
        store, other = (there, here) if kind is Ejabberd else (here, there)
        taken = await loaded(server, store, tmp_path, instances)
        for file, before in taken:
            holds_all_of(file, before)
        code, said = await pubqueue("restore", "--store", other, taken[-1][0])
        assert code == 0, said
        config = write_config(tmp_path, listener(server), NODE, store=other)
        bee = await stack.enter_async_context(session(server, BEE))
        async with Program(config):
            await bee.client.send(f"<presence to='{SERVICE}'/>")
            held, free = locks(taken[-1][0])
            assert "i0" in held
            for item in held:  # it is its holder's, who is told once more only of what is fresh
                await retract(bee, item)
            done = set()
            while done != free:
                async with asyncio.timeout(TIMEOUT):
                    item, token = await delivery(bee)
                if item in held:
                    assert token == held[item], "locks are as they were"
                elif item not in done:
                    done.add(item)
                    await retract(bee, item)


def holds_all_of(file, before):
    """Every item that was confirmed is there, or its completion is."""
    with closing(sqlite3.connect(file)) as backup:
        items = {item for (item,) in backup.execute("SELECT id FROM item")}
        events = set(backup.execute("SELECT kind, item FROM event"))
    assert {("published", item) for item in before} <= events
    assert {item for item in before if ("completed", item) not in events} <= items
    assert {item for kind, item in events if kind == "completed"}.isdisjoint(items)


def locks(file):
    """Return what is held, with its token, and what waits."""
    with closing(sqlite3.connect(file)) as backup:
        rows = backup.execute("SELECT id, state, token FROM item").fetchall()
    held = {item: token for item, state, token in rows if state == "locked"}
    return held, {item for item, _, _ in rows} - held.keys()
