"""Deliveries at a level to real workers, behind Prosody and behind ejabberd: lost processes on both sides."""

import asyncio
import signal
import sys
from collections import Counter
from functools import partial
from xml.etree.ElementTree import Element

import pytest
from harness.patience import TIMEOUT, until
from harness.servers.behind import SERVICE, behind_both, publishing, serving, worker_at

from pubqueue_xeps.client.pace import Timings
from pubqueue_xeps.client.xmpp_client import login, logout, make_client
from pubqueue_xeps.xep_0254 import queueing

pytestmark = pytest.mark.e2e
QUICK = Timings(answer=5, backoff_min=0.05, backoff_max=0.5)
HASTY = """
[qos]
attempts = 3
retry_after = 0.3
"""
"""A worker that answers nothing for two seconds is given up."""
NODES = """
[[node]]
name = "jobs"
queueing = true
publishers = ["etl@localhost"]
members = ["bot@localhost", "second@localhost"]
[node.options]
"x-queueing#backoff_min" = 0
"x-queueing#lock_timeout" = 3600

[[node]]
name = "leveled"
queueing = true
publishers = ["bot@localhost"]
[node.options]
"x-queueing#qos" = "acknowledged"
"""
SILENT = '''
"""A worker that takes items, says so, and is stopped from outside."""
import asyncio, sys
from pubqueue_xeps.worker.worker import Worker

async def hold(item):
    print(item.id, flush=True)
    await asyncio.sleep(3600)

host, port, level = sys.argv[1:]
worker = Worker("bot@localhost/silent", "secret", service="queue.localhost", node="jobs", requests=4, level=level, host=host, port=int(port), tls="off")
print("ready", flush=True)
asyncio.run(worker.run(hold))
'''


server = behind_both("etl", "bot", "second")
program = serving(HASTY + NODES)
patient = serving(NODES)


@pytest.fixture
def worker_of(server):
    return partial(worker_at, server, timings=QUICK)


class Done:
    """A handler that counts what it has done."""

    def __init__(self, names):
        self.names, self.counts = set(names), Counter()
        self.all = asyncio.Event()

    async def __call__(self, item):
        self.counts[item.id] += 1
        if set(self.counts) >= self.names:
            self.all.set()


@pytest.mark.covers("QS-029", on=["prosody", "ejabberd"])
@pytest.mark.parametrize("level", ["acknowledged", "assured"])
async def test_each_item_is_done_once_and_comes_at_its_level(server, patient, worker_of, level):
    names = [f"i{number}" for number in range(100)]
    done, worker = Done(names), worker_of(requests=10, level=level)
    async with publishing(server) as publish, asyncio.TaskGroup() as group:
        group.create_task(worker.run(done))
        await publish(*names)
        async with asyncio.timeout(TIMEOUT):
            await done.all.wait()
        await worker.drain()
    assert done.counts == Counter(names)


@pytest.mark.covers("QS-008", "QS-041", on=["prosody", "ejabberd"])
@pytest.mark.parametrize("level", ["acknowledged", "assured"])
async def test_what_a_worker_that_hangs_has_not_answered_goes_to_another(
    server, program, worker_of, level, tmp_path
):
    (tmp_path / "silent.py").write_text(SILENT)
    words = tmp_path / "silent.py", server.host, str(server.c2s_port), level
    silent = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", *words), stdout=asyncio.subprocess.PIPE
    )
    try:
        async with publishing(server) as publish:
            async with asyncio.timeout(TIMEOUT):
                assert await silent.stdout.readline() == b"ready\n"
                await publish("first")
                assert await silent.stdout.readline() == b"first\n"
            silent.send_signal(signal.SIGSTOP)
            names = ["a", "b", "c"]
            await publish(*names)
            done, worker = Done(names), worker_of("second@localhost/two", requests=10)
            async with asyncio.TaskGroup() as group:
                group.create_task(worker.run(done))
                async with asyncio.timeout(TIMEOUT):
                    await done.all.wait()
                await worker.drain()
            # a machine may be slow enough to have the other given up as well
            given_up = [it for it in program.log.splitlines() if "event=delivery.unanswered" in it]
            assert sum("bot@localhost/silent" in it for it in given_up) == 1
    finally:
        silent.kill()
        await silent.wait()


@pytest.mark.parametrize("level", ["acknowledged", "assured"])
async def test_a_killed_service_goes_on_with_what_was_delivered(server, program, worker_of, level):
    names = [f"i{number}" for number in range(60)]
    done, worker = Done(names), worker_of(requests=5, level=level)

    async def slowly(item):
        await asyncio.sleep(0.02)
        await done(item)

    async with publishing(server) as publish, asyncio.TaskGroup() as group:
        group.create_task(worker.run(slowly))
        await publish(*names)
        for count in (10, 30):
            await until(lambda count=count: len(done.counts) >= count)
            await program.kill()
            await program.start()
        async with asyncio.timeout(TIMEOUT):
            await done.all.wait()
        await worker.drain()
    assert set(done.counts) == set(names)


@pytest.mark.covers("QS-032", on=["prosody", "ejabberd"])
async def test_a_client_that_can_answer_gets_the_level_of_the_queue(server, program):
    came = asyncio.Queue()

    def noted(stanza):
        if stanza.xml.find(".//{http://jabber.org/protocol/pubsub#event}items") is not None:
            came.put_nowait(stanza.xml.tag.rpartition("}")[2])
        return stanza

    address = {"host": server.host, "port": server.c2s_port, "tls": "off"}
    client = make_client("bot@localhost/own", "secret", **address)
    client.register_plugin("xep_qos", {}, module="pubqueue_xeps.xep_qos")
    client.add_filter("in", noted)
    answered = asyncio.Event()

    def answering(stanza):
        if stanza.xml.find("{http://jabber.org/protocol/disco#info}query") is not None:
            answered.set()
        return stanza

    client.add_filter("out", answering)
    await login(client)
    try:
        await queueing(client).subscribe_queue(SERVICE, "leveled", 1)
        async with asyncio.timeout(TIMEOUT):
            await answered.wait()
            # the answer is before this on the same stream
            await queueing(client).publish(SERVICE, "leveled", Element("{x}job"), id="i1")
            assert await came.get() == "iq"
    finally:
        await logout(client)
