"""Commands over HTTP: where there is no XMPP server, and what they say if something is wrong."""

import asyncio
import json
import signal
from contextlib import AsyncExitStack, asynccontextmanager

import aiohttp
import pytest
from aiohttp import web
from harness.operators.metrics_reader import Watcher
from harness.operators.over_http import HttpOperator, HttpService
from harness.processes.program import Program, write_config
from harness.servers.stub_server import StubServer
from harness.servers.tls import certify
from harness.servers.users import RIGHT, table

from pubqueue import NewItem
from pubqueue.admin.http_client import Address, Answer, HttpClient, Login
from pubqueue.admin.over_http import HttpPublisher
from pubqueue.loopback import free_ports

XMPP = "xmpp://admin@example.org/queue.example.org"


@pytest.fixture
async def service(tmp_path):
    async with HttpService(tmp_path) as running:
        yield running


async def test_a_queue_is_operated_without_an_xmpp_server(service):
    root, anna = HttpOperator(service.url("root")), HttpOperator(service.url("anna"))
    etl = HttpOperator(service.url("etl"))
    assert await etl.does("publish", "jobs", "1", "--id", "i1") == "i1 is in jobs.\n"
    (row,) = await anna.rows("overview")
    assert (row["node"], row["depth"]) == ("jobs", 1)
    assert await root.does("node", "create", "mail") == "mail was created; you own it.\n"
    assert await anna.does("purge", "jobs", "--yes") == "1 item of jobs deleted.\n"
    (log,) = (line for line in service.log.splitlines() if "operation=purge" in line)
    assert "by=anna@queue.localhost/api" in log
    assert "remote=127.0.0.1" in log


async def test_roles_and_lists_of_nodes_decide_who_may_what(service):
    vic, etl = HttpOperator(service.url("vic")), HttpOperator(service.url("etl"))
    said = await vic.says("publish", "jobs", "1", "--id", "no")
    assert (said.code, "forbidden" in said.err) == (1, True), said
    assert (await vic.says("pause", "jobs")).code == 1
    await etl.does("publish", "jobs", '{"secret": 1}', "--id", "i1")
    assert (await vic.rows("items", "jobs"))[0]["id"] == "i1"
    assert (await vic.rows("peek", "jobs", "i1"))[0]["payload"] is None


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("http://anna@queue.example.org:9254/", "the password would cross the network unencrypted"),
        ("http://anna@127.0.0.1.example.org:9254/", "would cross the network unencrypted"),
        ("https://anna:secret@localhost/", "has a password in it"),
        ("https://localhost:9254/", "is not of the form https://anna@queue.example.org:9254/"),
        ("https://anna@localhost:99999/", "cannot be read"),
        ("https://anna@localhost/?tls=off", "has 'tls', which means nothing there"),
        ("https://anna@localhost/?ca_file=a&ca_file=b", "has 'ca_file' more than once"),
        ("https://anna@localhost/?ca_file=/there/is/none", "No such file or directory"),
        ("ftp://anna@localhost/", "is not of the form xmpp://"),
    ],
)
@pytest.mark.parametrize("words", [("queues",), ("publish", "jobs", "1"), ("doctor",)])
async def test_a_url_with_an_error_is_one_sentence(url, sentence, words):
    said = await HttpOperator(url).says(*words)
    assert said.code == 2, said
    assert sentence in said.err
    assert said.err.count("\n") == 1
    assert "secret" not in said.err


async def test_without_a_url_the_ways_to_give_one_are_named():
    said = await HttpOperator().says("queues")
    assert said.code == 2
    for way in ("--url", "PUBQUEUE_URL", "xmpp://", "https://", "--config"):
        assert way in said.err


async def test_a_worker_says_that_it_needs_xmpp():
    said = await HttpOperator("http://anna@127.0.0.1:9/").says(
        "worker", "json:loads", "--node", "jobs"
    )
    assert said.code == 2
    assert "PUBQUEUE_URL is an address over HTTP" in said.err


async def test_a_refused_login_and_a_refused_connection_are_one_sentence(service):
    said = await HttpOperator(service.url("anna"), "wrong password").says("queues")
    shown = f"127.0.0.1:{service.port}"
    assert said.code == 1
    assert said.err.startswith(f"pubqueue: {shown} refuses the login of anna: Wrong name")
    (port,) = free_ports(1)
    said = await HttpOperator(f"http://anna@127.0.0.1:{port}/").says("queues")
    assert (said.code, said.err) == (
        1,
        f"pubqueue: 127.0.0.1:{port} cannot be reached: Connection refused.\n",
    )


async def test_what_is_not_pubqueue_is_named():
    async def page(_request):
        return web.Response(text="<html>", content_type="text/html")

    async def moved(_request):
        raise web.HTTPFound("https://other.example.org/")

    async with another(page) as port:
        said = await HttpOperator(f"http://anna@127.0.0.1:{port}/").says("queues")
    assert (said.code, "is not pubqueue (status 200)" in said.err) == (1, True), said
    async with another(moved) as port:
        said = await HttpOperator(f"http://anna@127.0.0.1:{port}/").says("queues")
    assert "(status 302 to https://other.example.org/)" in said.err
    listener = await asyncio.start_server(no_http, "127.0.0.1", 0)
    async with listener:
        port = listener.sockets[0].getsockname()[1]
        said = await HttpOperator(f"http://anna@127.0.0.1:{port}/").says("queues")
        assert (said.code, "does not speak HTTP" in said.err) == (1, True), said
        said = await HttpOperator(f"https://anna@127.0.0.1:{port}/").says("queues")
        assert (said.code, "does not speak TLS there. If it serves plain HTTP" in said.err) == (
            1,
            True,
        ), said


async def no_http(_reader, writer):
    writer.write(b"220 mail.example.org\r\n\r\n")
    await writer.drain()
    writer.close()


@asynccontextmanager
async def another(handler):
    """Serve something else."""
    app = web.Application()
    app.router.add_route("*", "/{any:.*}", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


async def test_a_certificate_is_verified_against_the_authorities_that_are_named(tmp_path):
    key, certificate = await certify(tmp_path, "localhost")
    top = f'http_certificate = "{certificate}"\nhttp_key = "{key}"'
    async with HttpService(tmp_path, host="localhost", top=top) as service:
        url = f"https://anna@localhost:{service.port}/"
        said = await HttpOperator(url).says("queues")
        assert said.code == 1
        assert said.err == (
            f"pubqueue: TLS with localhost:{service.port} failed: the certificate is self-signed."
            " If you trust it, set ca_file in the URL to a file with it.\n"
        )
        anna = HttpOperator(f"{url}?ca_file={certificate}")
        assert len(await anna.rows("queues")) == 1
        assert "TLS: TLSv1.3" in await anna.does("doctor")
        other = HttpOperator(f"https://anna@127.0.0.1:{service.port}/?ca_file={certificate}")
        said = await other.says("queues")
        assert (said.code, "the certificate is not for 127.0.0.1." in said.err) == (1, True), said
        said = await HttpOperator(f"http://anna@localhost:{service.port}/").says("queues")
        assert (said.code, "write https://" in said.err) == (1, True), said


async def test_the_doctor_says_over_http_that_the_xmpp_server_is_away(tmp_path):
    (port,) = free_ports(1)
    users = table("root", roles=["admin"])
    async with AsyncExitStack() as its:
        server = await its.enter_async_context(StubServer())
        config = write_config(tmp_path, server, f'http = "127.0.0.1:{port}"\n{users}')
        async with Program(config):
            root = HttpOperator(f"http://root@127.0.0.1:{port}/")
            found = {row["about"]: row for row in await root.rows("doctor")}
            assert found["readiness"]["level"] == "good"
            assert found["service clock"]["level"] == "good"
            assert {"login", "TLS", "service", "queues", "event log"} <= found.keys()
            await its.aclose()
            said = await root.says("doctor", "--json")
            found = {row["about"]: row for row in map(json.loads, said.out.splitlines())}
            assert said.code == 1
            assert found["readiness"]["level"] == "bad"
            assert "server: not connected" in found["readiness"]["says"]
            assert len(await root.rows("overview")) == 0, "all else works"
            here = HttpOperator()
            assert await here.rows("overview", "--config", str(config)) == []


# Publishing.


async def test_a_level_of_messages_is_for_xmpp(service):
    etl = HttpOperator(service.url("etl"))
    said = await etl.says("publish", "jobs", "1", "--level", "assured")
    assert (said.code, "over HTTP an item is confirmed" in said.err) == (2, True), said


async def test_a_publish_goes_on_while_the_service_is_killed_and_is_done_once(service, tmp_path):
    etl, root = HttpOperator(service.url("etl")), HttpOperator(service.url("root"))
    file = tmp_path / "lines"
    file.write_text("".join(f"{n}\n" for n in range(3_000)))
    words = ("publish", "jobs", f"@{file}", "--lines", "--id-prefix", "n-")
    async with etl.running(*words) as process:
        async with asyncio.timeout(60):
            while not (await root.rows("queues"))[0]["depth"]:
                pass
        await service.kill()
        await service.start()
        out, err = await process.communicate()
    assert (process.returncode, err) == (0, b"")
    assert out.startswith(b"3000 items of jobs confirmed")
    assert (await root.rows("queues"))[0]["depth"] == 3_000


class Once(HttpClient):
    """A client that loses the answers of its first requests, which the service has done."""

    lost = 2

    async def request(self, *words, **more):
        answer = await super().request(*words, **more)
        if self.lost:
            self.lost -= 1
            self.close()
            return Answer(503, "application/problem+json", json.dumps(SILENT).encode(), "", "")
        return answer


SILENT = {"type": "urn:x-pubqueue:problem:unavailable", "status": 503, "detail": "no answer"}


async def test_a_publish_without_an_answer_is_repeated_under_the_same_ids(service):
    client = Once(Address("http", "127.0.0.1", service.port), Login("etl", RIGHT), 30)
    publisher = HttpPublisher(client)
    one, two = await publisher.publish_many("jobs", [NewItem(payload=1), NewItem(payload={"a": 2})])
    assert (one.duplicate, two.duplicate) == (None, None), "its own first publish, perhaps"
    client.close()
    rows = await HttpOperator(service.url("root")).rows("items", "jobs")
    assert [row["id"] for row in rows] == [one.id, two.id]


async def test_a_publisher_waits_while_publishing_is_paused(service):
    root, etl = HttpOperator(service.url("root")), HttpOperator(service.url("etl"))
    await root.does("pause-publishing", "jobs")
    refused = ("pubqueue_requests_refused_total", "publish-paused")
    async with (
        etl.running("publish", "jobs", "1", "--id", "late") as process,
        aiohttp.ClientSession() as session,
    ):
        watcher = Watcher(service.port, session)
        while not (await watcher.metrics()).get(refused):
            assert process.returncode is None, "it waits"
        await root.does("resume-publishing", "jobs")
        assert await process.communicate() == (b"late is in jobs.\n", b"")


async def test_control_c_ends_a_request_that_has_no_answer():
    waiting = asyncio.Event()

    async def silent(reader, writer):
        waiting.set()
        await reader.read(-1)
        writer.close()

    listener = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    anna = HttpOperator(f"http://anna@127.0.0.1:{port}/")
    async with listener, anna.running("events", "--follow") as process:
        await waiting.wait()
        process.send_signal(signal.SIGINT)
        await process.communicate()
        assert process.returncode == 0
