"""The programs in the pages about publishing, payloads and replies do what the pages say."""

import asyncio
import os
import re
import sys
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio
from harness.batches.inside import close_pipes
from harness.patience import TIMEOUT
from harness.servers.live import component

from pubqueue_demo.prosody import Prosody

pytestmark = pytest.mark.e2e
PAGES = Path(__file__).parents[2] / "docs" / "how-to"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
NODES = """
[[node]]
name = "{}"
queueing = true
publishers = ["etl@example.org", "bot@example.org"]
members = ["bot@example.org"]
[node.options]
"x-queueing#dedup_window" = 60
"""
QUEUES = "".join(NODES.format(name) for name in ("jobs", "bookings", "mails"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server():
    async with Prosody() as prosody:
        for name in ("etl", "bot"):
            await prosody.account(name, "secret")
        yield prosody


def blocks(page, language="python"):
    found = BLOCK.findall((PAGES / f"{page}.md").read_text())
    return [text for kind, text in found if kind == language]


@asynccontextmanager
async def program(server, path, text, account):
    """Run a program, whose output is unbuffered; it is killed if it does not end."""
    path.write_text(text)
    at = f"?host={server.host}&port={server.c2s_port}&tls=off"
    url = f"xmpp://{account}@localhost/queue.localhost{at}"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-Iu", path),
        env=os.environ | {"PUBQUEUE_URL": url, "PUBQUEUE_PASSWORD": "secret"},
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        close_pipes(process)


async def lines(process, number):
    async with asyncio.timeout(TIMEOUT):
        return [(await process.stdout.readline()).decode().strip() for _ in range(number)]


async def published(server, tmp_path, text):
    """Run a publisher to its end, and return what it has printed."""
    async with program(server, tmp_path / "publisher.py", text, "etl") as process:
        said, _ = await asyncio.wait_for(process.communicate(), TIMEOUT)
        assert process.returncode == 0
        return said.decode().splitlines()


def configuration(text=QUEUES):
    return text.replace("example.org", "localhost")


async def test_publish(server, tmp_path):
    first, second, beside, twice, back, many = blocks("publish")
    async with component(server, tmp_path, configuration()):
        (said,) = await published(server, tmp_path, first)
        assert re.fullmatch(r"[-0-9a-f]{36} is in the queue", said)
        for text in (second, beside):
            assert await published(server, tmp_path, text) == []
        assert await published(server, tmp_path, twice) == ["False", "True"]
        assert await published(server, tmp_path, back) == ["True False"]
        reported = await published(server, tmp_path, many)
        assert reported == [
            "order-17 True",
            "order-18 False",
        ]  # the page has published the first before


async def test_payloads(server, tmp_path):
    worker, values, typed, reader, element = blocks("payloads")
    async with (
        component(server, tmp_path, configuration()),
        program(server, tmp_path / "worker.py", worker, "bot") as process,
    ):
        assert await published(server, tmp_path, values) == []
        assert await lines(process, 2) == ["LH 400 [12, 14]", "LH 402 []"]
        assert await published(server, tmp_path, element) == []
        assert await lines(process, 1) == ["LH 400 []"]
        process.terminate()
        assert await process.wait() == 0
        async with program(server, tmp_path / "reader.py", reader, "bot") as second:
            assert await published(server, tmp_path, typed) == []
            assert sorted(await lines(second, 3)) == ["", "9 bytes", "LH 400;12"]


async def test_ask_and_reply(server, tmp_path):
    worker, requester, _ = blocks("ask-and-reply")
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(component(server, tmp_path, configuration()))
        await stack.enter_async_context(program(server, tmp_path / "worker.py", worker, "bot"))
        for _ in range(2):
            assert await published(server, tmp_path, requester) == ["42"]


async def test_replies_where_no_account_may_create_nodes(server, tmp_path):
    """With the node that the page declares, and without."""
    worker, requester, _ = blocks("ask-and-reply")
    (declared,) = blocks("ask-and-reply", "toml")
    closed = 'node_creation = "admins"\n' + configuration()
    async with (
        component(server, tmp_path, closed),
        program(server, tmp_path / "requester.py", requester, "etl") as process,
    ):
        assert await asyncio.wait_for(process.wait(), TIMEOUT) == 1
    async with AsyncExitStack() as stack:
        extra = closed + configuration(declared)
        await stack.enter_async_context(component(server, tmp_path, extra))
        await stack.enter_async_context(program(server, tmp_path / "worker.py", worker, "bot"))
        assert await published(server, tmp_path, requester) == ["42"]


async def test_blocking(server, tmp_path):
    worker, publisher, threads = blocks("blocking")
    async with (
        component(server, tmp_path, configuration()),
        program(server, tmp_path / "worker.py", worker, "bot") as process,
    ):
        (price,) = await published(server, tmp_path, publisher)
        assert price == "42"
        assert await published(server, tmp_path, threads) == ["100"]
        process.terminate()
        assert await asyncio.wait_for(process.wait(), TIMEOUT) == 0


FOLLOWER = """
import asyncio
from pubqueue import Worker

async def handle(item):
    print(item.data)

asyncio.run(Worker(node="mails").run(handle))
"""


async def test_follow_up_work(server, tmp_path):
    _, _, worker = blocks("ask-and-reply")
    publisher = blocks("publish")[1].replace('"jobs"', '"bookings"')
    async with (
        component(server, tmp_path, configuration()),
        program(server, tmp_path / "worker.py", worker, "bot"),
        program(server, tmp_path / "follower.py", FOLLOWER, "bot") as process,
    ):
        await published(server, tmp_path, publisher)
        (said,) = await lines(process, 1)
        assert re.fullmatch(r"{'about': '[-0-9a-f]{36}'}", said)


def test_every_program_stands_alone():
    for page in ("publish", "payloads", "ask-and-reply", "blocking"):
        for text in blocks(page):
            compile(text, page, "exec")
