"""Groups by the plugin, by `Batch` and by the page about them, on the real component behind Prosody and ejabberd."""

import asyncio
import re
from pathlib import Path
from xml.etree.ElementTree import Element

import pytest
from harness.patience import turns
from harness.servers.behind import SERVICE, behind_both, logged_in, worker_at
from harness.servers.live import component

from pubqueue_xeps.batch import Batch
from pubqueue_xeps.client.pace import Timings
from pubqueue_xeps.xep_0254 import queueing

pytestmark = pytest.mark.e2e
QUICK = Timings(answer=2, backoff_min=0.05, backoff_max=0.5)
NODES = """
[[node]]
name = "jobs"
queueing = true
publishers = ["etl@localhost"]
members = ["bot@localhost"]
"""
PAGE = Path(__file__).parents[2] / "docs/how-to/groups-and-rates.md"
(CODE,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


server = behind_both("etl", "bot")


@pytest.fixture
async def client(server, tmp_path):
    async with component(server, tmp_path, NODES), logged_in(server) as made:
        yield made


async def work_through(server, count):
    """Work on so many items, side by side as far as they come; return in what order they began and ended."""
    said, done = [], asyncio.Event()

    async def handler(item):
        said.append(("begins", item.id))
        await turns()
        said.append(("ends", item.id))
        if len(said) == 2 * count:
            done.set()

    running = asyncio.create_task(worker_at(server, timings=QUICK, requests=9).run(handler))
    await done.wait()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    return said


def of(said, *names):
    return [entry for entry in said if entry[1] in names]


def one_after_the_other(*names):
    return [(what, name) for name in names for what in ("begins", "ends")]


async def test_the_page_publishes_as_it_says(server, client, monkeypatch):
    at = f"?host={server.host}&port={server.c2s_port}&tls=off"
    monkeypatch.setenv("PUBQUEUE_URL", f"xmpp://etl@localhost/{SERVICE}{at}")
    monkeypatch.setenv("PUBQUEUE_PASSWORD", "secret")
    await asyncio.to_thread(exec, CODE, {})
    said = await work_through(server, 3)
    assert of(said, "c1", "c3") == one_after_the_other("c1", "c3")
    assert said.index(("begins", "c2")) < said.index(("begins", "c3"))


async def test_a_batch_publishes_items_of_groups(server, client):
    async with Batch(client, SERVICE, app="a", version=1) as batch:
        for name in ("i1", "i2", "i3"):
            await batch.publish("jobs", Element("{x}job"), id=name, group="g")
        await batch.publish("jobs", Element("{x}job"), id="free")
    assert batch.committed.published == 4
    said = await work_through(server, 4)
    assert of(said, "i1", "i2", "i3") == one_after_the_other("i1", "i2", "i3")


@pytest.mark.parametrize("group", ["", "a\x00b"])
async def test_what_is_no_name_of_a_group_is_not_sent(client, group):
    with pytest.raises(ValueError, match="group"):
        await queueing(client).publish(SERVICE, "jobs", Element("{x}job"), group=group)
