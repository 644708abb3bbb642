"""Reading from outside, on the real component, behind Prosody and behind ejabberd."""

from xml.etree.ElementTree import Element, tostring

import pytest
from harness.servers.behind import SERVICE, behind_both, logged_in, serving, worker_at

from pubqueue_xeps.errors import NoSuchNode, Refused
from pubqueue_xeps.reading import Reader
from pubqueue_xeps.wire.refusals import Reject
from pubqueue_xeps.xep_0254 import queueing

pytestmark = pytest.mark.e2e
NODES = """
[[node]]
name = "jobs"
queueing = true
owners = ["boss@localhost"]
publishers = ["etl@localhost"]
members = ["bot@localhost"]
[node.options]
"x-queueing#event_log" = true
"pubsub#max_payload_size" = 200000
"""


server = behind_both("etl", "bot", "boss")
program = serving(NODES)


@pytest.fixture
async def etl(server, program):
    async with logged_in(server) as client:
        yield client


async def test_what_happened_is_read_in_order(server, etl):
    said = {"trace": "7", "kind": "<a&b>"}
    for name in ("i1", "i2"):
        await queueing(etl).publish(SERVICE, "jobs", Element("{x}job"), id=name, headers=said)
    async with worker_at(server, requests=1) as worker:
        async with await anext(worker) as first:
            assert first.headers == said
        async with await anext(worker):
            raise Reject("no seat")
    reader = Reader(etl, SERVICE)
    log = [event async for event in reader.events()]
    assert [(event.seq, event.type, event.item) for event in log] == [
        (1, "published", "i1"),
        (2, "published", "i2"),
        (3, "delivered", "i1"),
        (4, "completed", "i1"),
        (5, "delivered", "i2"),
        (6, "unlocked", "i2"),
        (7, "dead", "i2"),
    ]
    done = log[3]
    assert (done.node, done.worker, done.publisher, done.attempt) == (
        *("jobs", "bot@localhost/one", "etl@localhost"),
        1,
    )
    assert 0 <= done.held_ms <= done.age_ms
    assert [event.seq async for event in reader.events(node="jobs", after=2, until=5)] == [3, 4, 5]
    (dead,) = [item async for item in reader.items("jobs", state="dead")]
    assert (dead.id, dead.headers, dead.dead_letter.reason, dead.dead_letter.last_holder) == (
        *("i2", said, "no seat"),
        "bot@localhost/one",
    )
    assert (dead.payload.tag, dead.size) == ("{x}job", len(b"<job xmlns='x'/>"))
    assert [
        item async for item in reader.items("jobs", state="dead", after=dead.dead_letter.seq)
    ] == []


async def test_pages_fit_through_a_server(etl):
    """Payloads that no single stanza could take, one of them nearly as large as any can be."""
    sizes = [150_000, 90_000, 30_000, 170_000, *[20_000] * 10]
    for at, size in enumerate(sizes):
        job = Element("{x}job")
        job.text = "&" * (size // 5)
        await queueing(etl).publish(SERVICE, "jobs", job, id=f"i{at}")
    reader = Reader(etl, SERVICE)
    found = [item async for item in reader.items("jobs")]
    assert [item.id for item in found] == [f"i{at}" for at in range(len(sizes))]
    assert [len(item.payload.text) for item in found] == [size // 5 for size in sizes]
    assert all(item.size <= len(tostring(item.payload)) + 20 for item in found)
    page = await reader.item_page("jobs")
    assert (len(page.entries), page.more) == (1, True)
    page = await reader.item_page("jobs", payload=False)
    assert (len(page.entries), page.more) == (len(sizes), False)


async def test_rights_decide_what_can_be_read(server, etl):
    await queueing(etl).publish(SERVICE, "jobs", Element("{x}job"), id="i1")
    (seen,) = [node async for node in Reader(etl, SERVICE).nodes()]
    assert (seen.name, seen.queued, seen.locked, seen.config) == ("jobs", 1, 0, {})
    async with logged_in(server, "boss@localhost") as boss:
        (seen,) = [node async for node in Reader(boss, SERVICE).nodes()]
        assert seen.config["x-queueing#event_log"] == "1"
        with pytest.raises(NoSuchNode):
            await Reader(boss, SERVICE).item_page("nothing")
    async with logged_in(server, "bot@localhost") as bot:
        with pytest.raises(Refused):
            await Reader(bot, SERVICE).event_page()
        with pytest.raises(Refused):
            await Reader(bot, SERVICE).item_page("jobs")
