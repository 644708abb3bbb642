"""What docs/how-to says of handlers, tracing and `pubqueue worker`, done: the pages' own code, on a real server."""

import asyncio
import os
import re
import signal
from contextlib import asynccontextmanager
from xml.etree.ElementTree import fromstring

import pytest
from harness.documents.documented import ROOT, blocks
from harness.patience import TIMEOUT
from harness.servers.behind import SERVICE, logged_in
from harness.servers.live import component
from harness.starts import warm_start
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, use_span

from pubqueue.cli import worker as command
from pubqueue_demo.prosody import Prosody
from pubqueue_xeps.limits import MAX_PAUSE
from pubqueue_xeps.xep_0254 import queueing

pytestmark = pytest.mark.e2e
HANDLERS, TRACING, RUNNING = (
    f"docs/how-to/{name}.md" for name in ("handlers", "tracing", "run-a-worker")
)
NODE = """
[[node]]
name = "jobs"
queueing = true
publishers = ["etl@localhost"]
members = ["bot@localhost"]
[node.options]
"x-queueing#backoff_min" = 0
""" + "".join(
    f"""
[[node]]
name = "{name}"
queueing = true
publishers = ["etl@localhost"]
members = ["bot@localhost"]
"""
    for name in ("mails", "orders")
)


def texts(page, language):
    return [block.text for block in blocks(language) if block.page == page]


@pytest.fixture
async def server(tmp_path):
    async with Prosody() as started:
        for name in ("etl", "bot"):
            await started.account(name, "secret")
        (tmp_path / "service").mkdir()
        async with component(started, tmp_path / "service", NODE):
            yield started


@asynccontextmanager
async def publishing(server):
    async with logged_in(server) as client:

        async def publish(node, payload, **beside):
            await queueing(client).publish(SERVICE, node, fromstring(payload), **beside)

        yield publish


@asynccontextmanager
async def worker(server, folder, *arguments):
    (folder / "password").write_text("secret\n")
    url = f"xmpp://bot@localhost/{SERVICE}?host={server.host}&port={server.c2s_port}&tls=off"
    reported = {"PUBQUEUE_URL": url, "PUBQUEUE_PASSWORD_FILE": "password"}
    process = await warm_start.pubqueue(
        *("worker", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=os.environ | reported,
        cwd=folder,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def line_with(process, word):
    async with asyncio.timeout(TIMEOUT):
        while word not in (line := (await process.stdout.readline()).decode()):
            assert line, f"{word} was never said"
    return line.rstrip()


async def end(process):
    process.send_signal(signal.SIGTERM)
    async with asyncio.timeout(TIMEOUT):
        rest = (await process.stdout.read()).decode().splitlines()
        assert await process.wait() == 0
    return rest


@pytest.fixture
def app(tmp_path):
    (tmp_path / "app.py").write_text("".join(texts(HANDLERS, "python")))
    return tmp_path


async def test_each_kind_of_work_has_its_handler(server, app):
    async with (
        worker(server, app, "app:app", "--node=jobs") as process,
        publishing(server) as publish,
    ):
        await publish("jobs", "<rebook xmlns='x' number='LH 400'/>", id="i1")
        assert await line_with(process, "rebooked") == "rebooked LH 400"
        rebook = '<json xmlns="urn:xmpp:json:0">{"type": "rebook"}</json>'
        await publish("jobs", rebook, id="i2", headers={"kind": "mail"})
        assert await line_with(process, "sent") == "sent i2"
        assert (await end(process))[-1] == "pubqueue: closed"


async def test_handlers_name_their_queues(server, app):
    async with worker(server, app, "app:post") as process, publishing(server) as publish:
        await publish("orders", "<mail xmlns='x'/>", id="i1")
        assert await line_with(process, "ordered") == "ordered i1"
        await publish("mails", "<mail xmlns='x'/>", id="i2")
        assert await line_with(process, "sent") == "sent i2"
        await end(process)


async def test_a_batch_is_one_call(server, app):
    async with publishing(server) as publish:
        for number, seats in enumerate((2, 0, 1)):
            await publish("orders", f"<flight xmlns='x' number='LH {number}' seats='{seats}'/>")
    async with worker(server, app, "app:table", "--node=orders") as process:
        assert await line_with(process, "inserted") == "inserted 2"
        assert "an order of nothing" in await line_with(process, "rejected")
        await end(process)


async def test_a_schedule_stands_beside_its_handler(server, app):
    async with publishing(server) as publish:
        await publish("orders", "<x/>", id="nightly@now", headers={"schedule": "nightly"})
    async with worker(server, app, "app:clock", "--no-schedules") as process:
        assert await line_with(process, "cleaned") == "cleaned up for nightly@now"
        await end(process)
    async with worker(server, app, "app:clock") as process:
        assert "bot@localhost is not an administrator" in await line_with(process, "schedule")
        assert await process.wait() == 1


async def test_middleware_sees_each_attempt(server, app):
    arguments = ("app:careful", "--node=jobs", "--quiet")
    async with worker(server, app, *arguments) as process, publishing(server) as publish:
        await publish("jobs", "<x/>", id="i1", headers={"customer": "7"})
        said = [await line_with(process, word) for word in ("problem", "failed", "done")]
        assert said == ["problem OSError fail_first i1 1", *said[1:2], "took fail_first done True"]
        assert await end(process) == []


async def test_a_trace_goes_on(server, tmp_path, monkeypatch):
    exporting = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

class Printing(SpanExporter):
    def export(self, spans):
        for span in spans:
            print("span", span.name, span.context.trace_id, flush=True)
        return SpanExportResult.SUCCESS

provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(Printing()))
trace.set_tracer_provider(provider)
"""
    code = "".join(texts(TRACING, "python"))
    (tmp_path / "app.py").write_text(exporting + code)
    page = {}
    exec(code, page)
    parent = {"traceparent": f"00-{7:032x}-{8:016x}-01"}
    async with worker(server, tmp_path, "app:app", "--node=jobs") as process:
        async with publishing(server) as publish:

            async def publish_from_a_span(node, payload, headers):
                await publish(node, payload, headers=parent | headers)

            await page["publish_traced"](publish_from_a_span, "<x/>")
        assert await line_with(process, "span") == "span process jobs 7"
        url = f"xmpp://etl@localhost/{SERVICE}?host={server.host}&port={server.c2s_port}&tls=off"
        monkeypatch.setenv("PUBQUEUE_URL", url)
        monkeypatch.setenv("PUBQUEUE_PASSWORD", "secret")
        above = SpanContext(9, 8, is_remote=True, trace_flags=TraceFlags(1))
        with use_span(NonRecordingSpan(above)):
            await page["order"]({"order": 7})
        assert await line_with(process, "span") == "span process jobs 9"
        await end(process)


def commands():
    lines = "".join(texts(RUNNING, "sh")).splitlines()
    return [line for line in lines if line.startswith("pubqueue worker ")]


def test_the_page_has_commands():
    assert len(commands()) == 2


@pytest.mark.parametrize("line", commands())
async def test_the_commands_work_as_printed(server, tmp_path, line):
    (handle,) = texts(RUNNING, "python")
    (tmp_path / "app.py").write_text(handle)
    arguments = line.split()[2:]
    async with (
        worker(server, tmp_path, *arguments) as process,
        publishing(server) as publish,
    ):
        shown = re.sub(r"worker-\w+", "worker-5f0c2a91", await line_with(process, "connected"))
        printed, *_ = texts(RUNNING, "text")
        assert shown == printed.splitlines()[0].replace("example.org", "localhost")
        await publish("jobs", "<x/>", id="i1")
        assert await line_with(process, "done") == "done i1"
        assert (await end(process))[-1] == "pubqueue: closed"


def test_the_environment_is_as_printed():
    exported = [line for line in "".join(texts(RUNNING, "sh")).splitlines() if "export" in line]
    assert [line.split("=")[0] for line in exported] == [
        "export PUBQUEUE_URL",
        "export PUBQUEUE_PASSWORD_FILE",
    ]


def test_the_tables_name_every_setting():
    page = (ROOT / RUNNING).read_text()
    flags = {
        flag for param in command.worker.params for flag in param.opts if flag.startswith("--")
    }
    assert flags == set(re.findall(r"^\| `(--[\w-]+)` ", page, re.MULTILINE))
    page = (ROOT / HANDLERS).read_text()
    limits = set(re.findall(r"^\| `(\w+)` ", page, re.MULTILINE))
    assert limits == {"retries", "backoff", "time_limit", "concurrency", "retry_on", "reject_on"}
    assert ("up to an hour" in page, MAX_PAUSE) == (True, 3600)
