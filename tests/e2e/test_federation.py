"""Publishers and workers at a server that federates with the component's: they work, leave, and are there when servers come back."""

import asyncio
from collections import Counter
from contextlib import asynccontextmanager
from xml.etree.ElementTree import Element

import pytest
import pytest_asyncio
from harness.patience import TIMEOUT, until
from harness.servers.federation import federation
from harness.servers.live import component

from pubqueue_xeps.client.pace import Timings
from pubqueue_xeps.client.xmpp_client import login, logout, make_client
from pubqueue_xeps.errors import ServiceUnavailable
from pubqueue_xeps.worker.worker import Worker
from pubqueue_xeps.xep_0254 import queueing

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.asyncio(loop_scope="module"),
]
QUICK = Timings(answer=5, backoff_min=0.05, backoff_max=0.5)
CONFIG = """
ping_after = {ping_after}

[[node]]
name = "jobs"
queueing = true
publishers = ["etl@prosody.example", "etl@ejabberd.example"]
members = ["bot@prosody.example", "bot@ejabberd.example"]
[node.options]
"x-queueing#backoff_min" = 0
"x-queueing#lock_timeout" = 3600
"""


class Pair:
    """The component's server, and the far one."""

    def __init__(self, home, far, folder):
        self.home, self.far, self.folder = home, far, folder
        self.service = home.component

    def worker(self, server, name="one", **settings):
        jid = f"bot@{server.domain}/{name}"
        address = {"host": server.host, "port": server.c2s_port, "tls": "off"}
        fixed = {"service": self.service, "node": "jobs", "signals": (), "timings": QUICK}
        return Worker(jid, "secret", **fixed, **address, **settings)

    @asynccontextmanager
    async def publishing(self, server):
        jid, secret = f"etl@{server.domain}/p", "secret"
        client = make_client(jid, secret, host=server.host, port=server.c2s_port, tls="off")
        await login(client)

        async def publish(*names):
            for name in names:
                job = Element("{x}job", nr=name)
                await queueing(client).publish(self.service, "jobs", job, id=name)

        try:
            yield publish
        finally:
            await logout(client)

    def serving(self, ping_after=30):
        return component(self.home, self.folder, CONFIG.format(ping_after=ping_after))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def servers():
    async with federation() as both:
        for server in both:
            for name in ("etl", "bot"):
                await server.account(name, "secret")
        yield both


@pytest.fixture(params=[0, 1], ids=["behind Prosody", "behind ejabberd"])
def pair(request, servers, tmp_path):
    return Pair(servers[request.param], servers[1 - request.param], tmp_path)


async def accepted(publish, name):
    """Publish, and return whether the component has come back to its server."""
    try:
        await publish(name)
    except ServiceUnavailable:
        return False
    return True


async def next_of(worker):
    async with asyncio.timeout(TIMEOUT):
        return await anext(worker)


async def test_publishers_and_workers_of_another_server_work(pair):
    names = [f"i{n}" for n in range(40)]
    done, over = Counter(), asyncio.Event()

    async def handler(item):
        done[item.id] += 1
        if len(done) == len(names):
            over.set()

    async with pair.serving(), pair.publishing(pair.far) as publish:
        workers = [pair.worker(pair.far, requests=4), pair.worker(pair.home, requests=4)]
        async with asyncio.TaskGroup() as group:
            for worker in workers:
                group.create_task(worker.run(handler))
            await publish(*names)
            async with asyncio.timeout(TIMEOUT):
                await over.wait()
            for worker in workers:
                await worker.drain()
    assert done == Counter(names)


async def test_what_a_worker_of_another_server_held_is_free_when_it_leaves(pair):
    async with pair.serving(), pair.publishing(pair.far) as publish:
        async with pair.worker(pair.far) as leaver:
            await publish("a")
            assert (await next_of(leaver)).id == "a"
        async with pair.worker(pair.home) as other, await next_of(other) as again:
            assert (again.id, again.attempt) == ("a", 2)


async def test_an_item_of_a_server_that_was_killed_is_with_another_worker_and_work_goes_on_when_it_is_back(
    pair,
):
    """The lock lasts an hour, and nobody reports that the worker has left."""
    async with (
        pair.serving(ping_after=2),
        pair.publishing(pair.home) as publish,
        pair.worker(pair.far, touch_for=0) as lost,
    ):
        await publish("a")
        assert (await next_of(lost)).id == "a"
        await pair.far.kill()
        try:
            async with pair.worker(pair.home) as other, await next_of(other) as again:
                assert (again.id, again.attempt) == ("a", 2)
        finally:
            await pair.far.start()
        await publish("b")
        async with await next_of(lost) as later:
            assert later.id == "b"


async def test_a_worker_that_is_slow_but_there_keeps_its_item(pair):
    async with (
        pair.serving(ping_after=4),
        pair.publishing(pair.home) as publish,
        pair.worker(pair.far) as slow,
        pair.worker(pair.home) as idle,
    ):
        await publish("a", "b")
        first, second = await next_of(slow), await next_of(idle)
        async with second:
            pass
        # longer than a worker may be silent and leave two pings unanswered: the idle one would have the item by then
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(10):
                await anext(idle)
        async with first:
            assert first.attempt == 1
        assert first.state == "retracted"


async def test_workers_of_another_server_go_on_when_the_home_server_is_back(pair):
    async with pair.serving(), pair.worker(pair.far) as worker:
        async with pair.publishing(pair.far) as publish:
            await publish("a")
            async with await next_of(worker) as item:
                assert item.id == "a"
        await pair.home.restart()
        async with pair.publishing(pair.home) as publish:
            await until(lambda: accepted(publish, "b"))
        async with await next_of(worker) as item:
            assert item.id == "b"
