"""Behind real servers: what a failing worker does to a queue can be read from its metrics, and who is at work."""

from contextlib import AsyncExitStack, nullcontext

import aiohttp
import pytest
from harness.clients.session import PUBSUB, SERVICE, condition, session
from harness.databases.postgres import Postgres
from harness.operators.metrics_reader import Watcher
from harness.patience import TIMEOUT
from harness.processes.program import Program, write_config
from harness.servers.ejabberd import Ejabberd
from harness.servers.live import listener

from pubqueue.loopback import free_ports
from pubqueue_demo.prosody import Prosody

pytestmark = pytest.mark.e2e

NODE = """
[[node]]
name = "jobs"
queueing = true
publishers = ["etl@localhost"]
members = ["bee@localhost"]
options = { "x-queueing#max_failures" = 2, "x-queueing#backoff_min" = 0, "x-queueing#backoff_max" = 0 }
"""
BEE = "bee@localhost/x"
WINDOW = """<options><x xmlns='jabber:x:data' type='submit'><field var='pubsub#queue_requests'>
<value>1</value></field></x></options>"""
SUBSCRIBE = f"<pubsub xmlns='{PUBSUB}'><subscribe node='jobs' jid='{BEE}'/>{WINDOW}</pubsub>"
UNLOCK = (
    f"<pubsub xmlns='{PUBSUB}'><unlock xmlns='urn:xmpp:pubsub:queueing:0' node='jobs'><item id='a'/></unlock>"
    "<outcome xmlns='urn:x-pubqueue:0' type='failed' reason='no seat'/></pubsub>"
)


@pytest.fixture(params=["sqlite", "postgres"])
def store(request, tmp_path):
    with Postgres() if request.param == "postgres" else nullcontext() as server:
        yield server.address if server else tmp_path / "pubqueue.db"


@pytest.fixture
async def http():
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(TIMEOUT)) as asking:
        yield asking


async def given(bee):
    """Wait for the next delivery."""
    while (await bee.next_message()).find("{urn:x-pubqueue:0}lock") is None:
        pass


@pytest.mark.parametrize("kind", [Prosody, Ejabberd])
async def test_failures_and_deaths_are_reported_with_their_facts(kind, store, tmp_path, http):
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(kind())
        for name in ("etl", "bee"):
            await server.account(name, "secret")
        (port,) = free_ports(1)
        extra = f'http = "{port}"\n{NODE}'
        config = write_config(tmp_path, listener(server), extra, store=store)
        await stack.enter_async_context(Program(config))
        watcher = Watcher(port, http)
        etl = await stack.enter_async_context(session(server, "etl@localhost/x"))
        bee = await stack.enter_async_context(session(server, BEE))
        await bee.client.send(f"<presence to='{SERVICE}'/>")
        assert condition(await bee.ask("set", SUBSCRIBE)) == "result"
        assert condition(await etl.publish(a="<job xmlns='x'/>")) == "result"
        for _ in range(2):
            await given(bee)
            assert condition(await bee.ask("set", UNLOCK)) == "result"
        found = await watcher.metrics()
    assert found["pubqueue_items_delivered_total", "jobs"] == 2
    assert found["pubqueue_items_failed_total", "jobs", "reported"] == 2
    assert found["pubqueue_items_died_total", "jobs", "reported"] == 1
    assert found["pubqueue_queue_dead", "jobs"] == 1
    assert found["pubqueue_queue_depth", "jobs"] == 0
    assert found["pubqueue_node_subscribers", "jobs"] == 1
    assert found["pubqueue_queue_free_window", "jobs"] == 1


async def test_of_two_instances_one_is_ready_and_the_other_waits(store, tmp_path, http):
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(Prosody())
        programs, watchers = [], []
        for name, port in zip(("one", "other"), free_ports(2), strict=True):
            (tmp_path / name).mkdir()
            extra = f'http = "{port}"\n{NODE}'
            config = write_config(tmp_path / name, listener(server), extra, store=store)
            programs.append(Program(config))
            watchers.append(Watcher(port, http))
            stack.push_async_callback(programs[-1].kill)
        await programs[0].start()
        await programs[1].start("waiting: another instance is queue.localhost on ")
        assert await watchers[0].ready() == (
            200,
            {"ready": True, "phase": "at work", "why_not": []},
        )
        assert await watchers[1].ready() == (
            503,
            {"ready": False, "phase": "waiting", "why_not": ["phase: waiting"]},
        )
        assert [await one.get("/healthz") for one in watchers] == [(200, "alive\n")] * 2
        await programs[0].kill()
        await programs[1].says("ready")
        assert (await watchers[1].ready())[0] == 200
        await programs[1].stop()
