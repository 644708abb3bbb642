"""The publisher and the workers of examples/, as programs, on a real server and component."""

import asyncio
import os
import sqlite3
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio
from harness.batches.inside import close_pipes
from harness.patience import TIMEOUT
from harness.servers.live import component
from harness.servers.queue_service import QueueService

from pubqueue_demo.prosody import Prosody

pytestmark = pytest.mark.e2e
EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest_asyncio.fixture
async def server():
    async with Prosody() as prosody:
        await prosody.account("etl", "secret")
        await prosody.account("bot", "secret")
        yield prosody


@asynccontextmanager
async def example(server, name, account, *arguments):
    """Run an example; whatever it says on stderr shows, and it is killed if it does not end."""
    at = f"?host={server.host}&port={server.c2s_port}&tls=off"
    settings = {
        "PUBQUEUE_URL": f"xmpp://{account}@localhost/queue.localhost{at}",
        "PUBQUEUE_PASSWORD": "secret",
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        EXAMPLES / name,
        "jobs",
        *arguments,
        env=os.environ | settings,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        close_pipes(process)


async def publish(server, text):
    async with example(server, "publisher.py", "etl") as publisher:
        said, _ = await asyncio.wait_for(publisher.communicate(text), TIMEOUT)
        assert publisher.returncode == 0
        return said


async def line(process):
    return await asyncio.wait_for(process.stdout.readline(), TIMEOUT)


async def terminated(process):
    """Send SIGTERM, and return what it said to the end."""
    process.terminate()
    said, _ = await asyncio.wait_for(process.communicate(), TIMEOUT)
    assert process.returncode == 0
    return said


async def test_the_worker_does_what_the_publisher_has_queued(server, tmp_path):
    async with component(server, tmp_path):
        said = await publish(server, b"i1 rebook me\ni2 and <me> & you\n")
        assert said == b"i1 is in the queue\ni2 is in the queue\n"
        async with example(server, "worker.py", "bot") as worker:
            assert {await line(worker), await line(worker)} == {
                b"i1: REBOOK ME\n",
                b"i2: AND <ME> & YOU\n",
            }
            assert await terminated(worker) == b""


async def test_the_batch_publisher_publishes_all_once(server, tmp_path):
    async with component(server, tmp_path):
        for said in (b"2 new\n", b"was there already\n"):
            async with example(server, "batch_publisher.py", "etl", "7") as publisher:
                reported, _ = await asyncio.wait_for(publisher.communicate(b"one\ntwo\n"), TIMEOUT)
                assert (reported, publisher.returncode) == (said, 0)
        async with example(server, "worker.py", "bot") as worker:
            done = {await line(worker), await line(worker)}
            assert done == {b"batch-publisher-7-0: ONE\n", b"batch-publisher-7-1: TWO\n"}
            assert await terminated(worker) == b""


async def test_a_job_without_a_text_is_rejected(server):
    async with (
        QueueService(server.component_port, server.secret) as service,
        example(server, "worker.py", "bot") as worker,
    ):
        service.deliver(await service.subscriber(), "i1", "<job/>")
        outcome = (await service.next("unlock")).find(".//{urn:x-pubqueue:0}outcome")
        assert dict(outcome.attrib) == {"type": "reject", "reason": "There is nothing to do."}
        assert await terminated(worker) == b""


async def test_the_crash_safe_worker_keeps_its_results(server, tmp_path):
    database = tmp_path / "results.db"
    async with component(server, tmp_path):
        await publish(server, b"i1 rebook me\n")
        async with example(server, "crash_safe_worker.py", "bot", database) as worker:
            assert await line(worker) == b"i1 is done\n"
            assert await terminated(worker) == b""
    assert results(database) == [("i1", "REBOOK ME")]


async def test_the_crash_safe_worker_does_nothing_twice(server, tmp_path):
    """It is killed after its result is on disk, and before its retract is answered."""
    database = tmp_path / "results.db"
    job = "<job xmlns='urn:example:job'>rebook me</job>"
    async with QueueService(server.component_port, server.secret) as service:
        answer = service.script["retract"]
        service.script["retract"] = lambda iq: []
        async with example(server, "crash_safe_worker.py", "bot", database) as worker:
            service.deliver(await service.subscriber(), "i1", job)
            await service.next("retract")
            worker.kill()
        service.script["retract"] = answer
        async with example(server, "crash_safe_worker.py", "bot", database) as worker:
            service.deliver(await service.subscriber(), "i1", job, attempt=2)
            assert await line(worker) == b"i1 was done before\n"
            await service.next("retract")
            await terminated(worker)
    assert results(database) == [("i1", "REBOOK ME")]


def results(database):
    connection = sqlite3.connect(database)
    try:
        return connection.execute("SELECT item, text FROM result").fetchall()
    finally:
        connection.close()


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_an_example_has_less_than_forty_lines(path):
    assert len(path.read_text().splitlines()) < 40
