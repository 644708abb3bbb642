"""examples/saga.py goes through its ten steps, each once, while its process and the service are killed between any two of them."""

import asyncio
import os
import sys
from collections import Counter
from contextlib import asynccontextmanager

import pytest
from harness.documents.documented import ROOT
from harness.patience import TIMEOUT
from harness.servers.behind import SERVICE, address_of, behind_both, logged_in, serving, worker_at

from pubqueue_xeps.client.pace import Timings
from pubqueue_xeps.publisher.publisher import Publisher
from pubqueue_xeps.reading import Reader

pytestmark = pytest.mark.e2e

QUICK = Timings(answer=2, backoff_min=0.05, backoff_max=0.5)
STEPS = ("reserve", "check", "pay", "bill", "pick", "pack", "label", "ship", "deliver", "thank")
NODES = "".join(
    f"""
[[node]]
name = "{name}"
queueing = true
owners = ["etl@localhost"]
publishers = ["bot@localhost"]
members = ["bot@localhost", "dev@localhost"]
[node.options]
"x-queueing#backoff_min" = 0
"x-queueing#event_log" = true
"""
    for name in ("orders", "steps", "undo", "mails")
)

server = behind_both("etl", "bot", "dev")
program = serving(NODES)


@asynccontextmanager
async def saga_of(server):
    """Run the example as a process, which is killed at the end of the block."""
    host, port = server.host, server.c2s_port
    url = f"xmpp://bot@localhost/{SERVICE}?host={host}&port={port}&tls=off"
    running = await asyncio.create_subprocess_exec(
        sys.executable,
        ROOT / "examples/saga.py",
        "orders",
        env=os.environ | {"PUBQUEUE_URL": url, "PUBQUEUE_PASSWORD": "secret"},
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield running
    finally:
        if running.returncode is None:
            running.kill()
        await running.wait()


async def test_each_step_is_asked_for_once_whoever_is_killed(server, program):
    came = Counter()
    connection = {"jid": "etl@localhost", "password": "secret", "service": SERVICE}
    async with (
        asyncio.timeout(4 * TIMEOUT),
        Publisher(**connection, **address_of(server), timings=QUICK) as publisher,
        worker_at(server, "dev@localhost/steps", "steps", requests=1, timings=QUICK) as worker,
    ):
        await publisher.publish("orders", {"seats": 2}, id="o1")
        steps = aiter(worker)
        for number, wanted in enumerate(STEPS):
            async with saga_of(server):
                item = await anext(steps)
                if number % 2:  # the service dies with the step in hand, and then the process
                    await program.kill()
                    await program.start()
            assert item.decode(dict[str, str]) == {"order": "o1", "step": wanted}
            assert item.headers["parent"] == "orders/o1"
            came[item.id] += 1
            async with item:
                await publisher.signal("orders", "o1", "done", signal_id=wanted)
            if number % 3 == 0:  # and before the saga has read the signal
                await program.kill()
                await program.start()
        async with (
            saga_of(server) as last,
            worker_at(server, "dev@localhost/mails", "mails") as mails,
        ):
            async with (mail := await anext(aiter(mails))):
                assert mail.decode(dict[str, str]) == {"order": "o1"}
            assert (await last.stdout.readline()).startswith(b"o1: 10 of 10")
    assert set(came.values()) == {1}
    assert len(came) == len(STEPS)
    async with logged_in(server) as etl:
        reader = Reader(etl, SERVICE)
        assert await _published(reader, "steps") == len(STEPS)
        assert await _published(reader, "mails") == 1
        assert [one async for one in reader.items("orders")] == []


async def _published(reader, node):
    return len([one async for one in reader.events(node=node) if one.type == "published"])
