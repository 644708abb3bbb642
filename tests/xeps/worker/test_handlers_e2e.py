"""Handlers on the real component, behind Prosody and behind ejabberd: retries, limits, and kills."""

import asyncio
import os
import signal
import sys
from collections import Counter
from contextlib import asynccontextmanager
from xml.etree.ElementTree import Element, fromstring

import msgspec
import pytest
from harness.batches.inside import session_of
from harness.patience import TIMEOUT
from harness.servers.behind import SERVICE, behind_both, logged_in, serving, worker_at
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from pubqueue_xeps import tracing
from pubqueue_xeps.client.pace import Timings
from pubqueue_xeps.handlers import Handlers
from pubqueue_xeps.item import BlockingItem
from pubqueue_xeps.publisher.publisher import Publisher
from pubqueue_xeps.reading import Reader
from pubqueue_xeps.wire.refusals import Release
from pubqueue_xeps.xep_0254 import queueing

pytestmark = pytest.mark.e2e
PATIENT = Timings(answer=TIMEOUT, backoff_min=0.05, backoff_max=0.5)
"""Nothing is repeated, however slow the machine is: the tests look at what is sent."""
NODES = """
[[node]]
name = "jobs"
queueing = true
publishers = ["etl@localhost", "bot@localhost"]
members = ["bot@localhost"]
[node.options]
"x-queueing#backoff_min" = 0

[[node]]
name = "strict"
queueing = true
publishers = ["etl@localhost"]
members = ["bot@localhost"]
[node.options]
"x-queueing#backoff_min" = 0
"x-queueing#max_failures" = 2
"""
UNLOCK = b"<unlock xmlns='urn:xmpp:pubsub:queueing:0'"


server = behind_both("etl", "bot")
program = serving(NODES)


@pytest.fixture
async def etl(server, program):
    async with logged_in(server) as client:
        yield client


@pytest.fixture
def publish(etl):
    async def publish(*names, of="job", node="jobs", payload=None, **beside):
        for name in names:
            work = Element(f"{{x}}{of}") if payload is None else fromstring(payload)
            await queueing(etl).publish(SERVICE, node, work, id=name, **beside)

    return publish


@pytest.fixture
def working(server):
    """Run handlers in the block; what is said of items that are given back is in `said`."""

    @asynccontextmanager
    async def working(app, node="jobs", requests=10):
        async with worker_at(server, node=node, timings=PATIENT, requests=requests) as worker:
            worker.said = []
            send = session_of(worker).send

            def listen(stanza):
                if UNLOCK in stanza:
                    outcome = fromstring(stanza).find(".//{urn:x-pubqueue:0}outcome")
                    worker.said.append(None if outcome is None else dict(outcome.attrib))
                return send(stanza)

            session_of(worker).send = listen
            running = asyncio.create_task(worker.run(app))
            yield worker
            worker.stop()
            await running

    return working


@pytest.fixture
def dead(etl):
    """Wait for so many dead items, and return why they are."""

    async def dead(count, node="jobs"):
        async with asyncio.timeout(TIMEOUT):
            while True:
                items = [it async for it in Reader(etl, SERVICE).items(node, state="dead")]
                if len(items) == count:
                    return {it.id: it.dead_letter.reason for it in items}

    return dead


async def everything(etl, node="jobs"):
    return [it async for it in Reader(etl, SERVICE).items(node)]


async def left(etl, node="jobs"):
    return [it.id async for it in Reader(etl, SERVICE).items(node)]


async def test_an_item_is_retried_later_and_later_and_dead_at_last(publish, working, dead):
    app, begun = Handlers(), []

    @app.handler("job", retries=2, backoff=0.2)
    async def job(item):
        begun.append((item.attempt, item.failures, asyncio.get_running_loop().time()))
        raise ValueError("not to be told")

    async with working(app) as worker:
        await publish("i1")
        assert await dead(1) == {"i1": "ValueError (failed 3 times)"}
    assert [one[:2] for one in begun] == [(1, 0), (2, 1), (3, 2)]
    first, second, third = (one[2] for one in begun)
    assert second - first >= 0.2
    assert third - second >= 0.4
    assert worker.said == [
        {"type": "failed", "delay": "0.200", "reason": "ValueError"},
        {"type": "failed", "delay": "0.400", "reason": "ValueError"},
        {"type": "reject", "reason": "ValueError (failed 3 times)"},
    ]


async def test_the_nodes_own_limit_stays_the_upper_bound(publish, working, dead):
    app, begun = Handlers(), []

    @app.handler(retries=10)
    async def job(item):
        begun.append(item.failures)
        raise ValueError

    async with working(app, node="strict"):
        await publish("i1", node="strict")
        assert await dead(1, "strict") == {"i1": "ValueError"}
    assert begun == [0, 1]


async def test_a_release_is_no_retry(etl, publish, working):
    app, begun, done = Handlers(), [], asyncio.Event()

    @app.handler(retries=0)
    async def job(item):
        begun.append((item.attempt, item.failures))
        if len(begun) < 4:
            raise Release
        done.set()

    async with working(app):
        await publish("i1")
        await done.wait()
    assert begun == [(1, 0), (2, 0), (3, 0), (4, 0)]
    assert await left(etl) == []


async def test_a_handler_that_hangs_is_cut_off(publish, working, dead):
    app = Handlers()

    @app.handler(time_limit=0.05, retries=0)
    async def job(item):
        await asyncio.Event().wait()

    async with working(app):
        await publish("i1")
        assert await dead(1) == {"i1": "TimeLimit (failed once)"}


async def test_a_plain_function_publishes_what_follows(etl, publish, working):
    app, done = Handlers(), asyncio.Event()

    @app.handler("job")
    def job(item: BlockingItem) -> None:
        item.publish("jobs", {"type": "next", "of": item.id})

    @app.handler("next")
    async def following(item: object, payload: dict[str, str]) -> None:
        assert payload == {"type": "next", "of": "i1"}
        done.set()

    async with working(app) as worker:
        await publish("i1")
        await done.wait()
    assert worker.said == []
    assert await left(etl) == []


async def test_an_item_of_an_unknown_type_waits_for_a_worker_that_knows_it(etl, publish, working):
    old, new, done = Handlers(), Handlers(), asyncio.Event()

    @old.handler("job")
    async def job(item):
        raise AssertionError

    @new.handler("mail", retries=0)
    async def mail(item):
        done.set()

    async with working(old) as worker:
        await publish("i1", of="mail")
        async with asyncio.timeout(TIMEOUT):
            while not worker.said:
                await left(etl)
        async with asyncio.timeout(TIMEOUT):
            while not [it for it in await everything(etl) if it.error]:
                pass
        (waits,) = await everything(etl)
        assert (waits.error, waits.failed) == ("no handler for {x}mail", 0)
    async with working(new):
        await done.wait()
    reported = {"reason": "no handler for {x}mail"}
    # it may have come again before the worker stopped
    assert worker.said[0] == {"type": "release", "delay": "1.000"} | reported
    assert await left(etl) == []


async def test_an_item_that_no_worker_ever_knows_is_dead(publish, working, dead):
    app = Handlers(unknown_tries=1)
    async with working(app):
        await publish("i1", of="mail")
        assert await dead(1) == {"i1": "no handler for {x}mail"}


class Rebook(msgspec.Struct):
    nr: int


async def test_work_is_distinguished_by_header_json_element_and_name(etl, publish, working):
    app, done, all_done = Handlers(), {}, asyncio.Event()

    def note(item, what):
        done[item.id] = what
        if len(done) == 5:
            all_done.set()

    @app.handler("rebook")
    async def by_name(item: object, payload: Rebook) -> None:
        note(item, f"name {payload.nr}")

    @app.handler(element="{urn:example}job")
    async def by_element(item):
        note(item, "element")

    @app.handler(json="kind", equals="mail")
    async def by_field(item):
        note(item, "field")

    @app.handler(header="kind", equals="mail")
    async def by_header(item):
        note(item, "header")

    @app.handler()
    async def rest(item):
        note(item, "rest")

    async with working(app):
        await publish("i1", payload="<rebook xmlns='x' nr='7'/>")
        await publish("i2", payload="<job xmlns='urn:example'/>")
        await publish("i3", payload='<json xmlns="urn:xmpp:json:0">{"kind": "mail"}</json>')
        await publish("i4", payload="<job xmlns='urn:example'/>", headers={"kind": "mail"})
        await publish("i5", payload='<json xmlns="urn:xmpp:json:0">{"type": "x"}</json>')
        await all_done.wait()
    expected = {"i1": "name 7", "i2": "element", "i3": "field", "i4": "header", "i5": "rest"}
    assert done == expected
    assert await left(etl) == []


async def test_bytes_and_text_come_out_as_they_were_published(server, program, working):
    """Through the server into the store, and out again: byte for byte, with the content type."""
    sent = {
        "all": (bytes(range(256)), "application/octet-stream"),
        "none": (b"", "image/png"),
        "text": ("<&>\"' ]]>\n\t ä\u2028", 'text/csv; header="a b"'),
        "returns": (b"a\r\nb", "text/plain"),
        "json": (b'{"a": "<&\xc3\xa4\\u0000"}', "application/json; charset=utf-8"),
        "broken": (b'{"a": ', "application/json"),
        "wrapper": (b"<json xmlns='urn:xmpp:json:0'>1</json>", "application/xml"),
    }
    app, done, all_done = Handlers(), {}, asyncio.Event()

    @app.handler()
    async def take(item):
        done[item.id] = item
        if len(done) == len(sent) + 1:
            all_done.set()

    address = {"host": server.host, "port": server.c2s_port, "tls": "off"}
    async with (
        Publisher("etl@localhost", "secret", service=SERVICE, **address) as publisher,
        working(app),
    ):
        for name, (body, type_) in sent.items():
            published = await publisher.publish("jobs", body, id=name, type=type_)
            assert published.duplicate is False
        await publisher.publish("jobs", b"<svg xmlns='urn:x'/>", id="xml", type="image/svg+xml")
        async with asyncio.timeout(TIMEOUT):
            await all_done.wait()
    xml = done.pop("xml")
    assert (xml.payload.tag, xml.type) == ("{urn:x}svg", "image/svg+xml")
    assert {name: item.type for name, item in done.items()} == {
        name: type_ for name, (_, type_) in sent.items()
    }
    assert done.pop("json").data == {"a": "<&ä\0"}
    for name, item in done.items():
        body = sent[name][0]
        assert item.decode(bytes) == (body.encode() if isinstance(body, str) else body)


async def test_each_handler_takes_no_more_than_it_may_and_lets_others_pass(etl, publish, working):
    app, go, mailed, running, most = Handlers(), asyncio.Event(), asyncio.Event(), 0, 0

    @app.handler("job", concurrency=2)
    async def job(item):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await go.wait()
        running -= 1

    @app.handler("mail")
    def mail(item):
        loop.call_soon_threadsafe(mailed.set)

    loop = asyncio.get_running_loop()
    async with working(app):
        await publish(*(f"i{number}" for number in range(8)))
        await publish("m1", of="mail")
        await mailed.wait()
        go.set()
        async with asyncio.timeout(TIMEOUT):
            while await left(etl):
                pass
    assert most == 2


async def test_a_trace_goes_from_the_publisher_through_each_attempt(etl, publish, working):
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    app, done = Handlers(tracing.Tracing(provider)), asyncio.Event()

    @app.handler("job")
    async def job(item):
        if item.attempt == 1:
            raise ValueError
        done.set()

    async with working(app):
        with tracing.publishing("jobs", id="i1", tracer_provider=provider) as headers:
            await publish("i1", headers=headers)
        await done.wait()
    sent, *processed = sorted(exporter.get_finished_spans(), key=lambda span: span.start_time)
    assert {span.context.trace_id for span in processed} == {sent.context.trace_id}
    assert [span.attributes["pubqueue.outcome"] for span in processed] == ["failed", "done"]


# --- killed in the middle ------------------------------------------------------------------------

APP = """
import asyncio, os, signal, sys
from pubqueue_xeps.handlers import Handlers

app, begun = Handlers(), 0

@app.handler("job", concurrency=3)
async def job(item):
    global begun
    begun += 1
    if begun == int(os.environ.get("KILLED_AT", 0)):
        os.kill(os.getpid(), signal.SIGKILL)
    await asyncio.sleep(0)
    with open("done", "a") as file:
        print(item.id, file=file)

@app.handler("poison", retries=1)
def poison(item):
    print("begun", item.id, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@asynccontextmanager
async def process(server, folder, **more):
    """Run `pubqueue worker`; kill it at the end of the block."""
    (folder / "app.py").write_text(APP)
    url = f"xmpp://bot@localhost/{SERVICE}?host={server.host}&port={server.c2s_port}&tls=off"
    running = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pubqueue", "worker", "app:app", "--url", url, "--node=jobs"),
        stdout=asyncio.subprocess.PIPE,
        cwd=folder,
        env=os.environ | {"PUBQUEUE_PASSWORD": "secret", "PUBQUEUE_QUIET": "1"} | more,
    )
    try:
        yield running
    finally:
        if running.returncode is None:
            running.kill()
        await running.communicate()


async def test_workers_that_are_killed_lose_nothing(server, etl, publish, tmp_path):
    names = [f"i{number}" for number in range(60)]
    await publish(*names)
    for begun in ("7", "11", "16"):  # with items in hand, and others waiting in the window
        async with process(server, tmp_path, KILLED_AT=begun) as running, asyncio.timeout(TIMEOUT):
            assert await running.wait() == -signal.SIGKILL
    assert await left(etl)
    async with process(server, tmp_path) as running, asyncio.timeout(TIMEOUT):
        while await left(etl):
            pass
        running.terminate()
        await running.stdout.read()
        assert await running.wait() == 0
    done = Counter((tmp_path / "done").read_text().split())
    assert set(done) == set(names)
    assert max(done.values()) <= 4  # again only for those that were in hand when one was killed


async def test_an_item_that_kills_its_workers_is_dead_when_its_retries_are_over(
    server, publish, dead, tmp_path
):
    await publish("i1", of="poison")
    begun = 0
    for _ in range(2):
        async with process(server, tmp_path) as running:
            async with asyncio.timeout(TIMEOUT):
                begun += [line async for line in running.stdout].count(b"begun i1\n")
            assert await running.wait() == -9
    async with process(server, tmp_path):
        assert await dead(1) == {"i1": "failed 2 times"}
    assert begun == 2
