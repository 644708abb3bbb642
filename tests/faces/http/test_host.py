"""The host: parts that do not know each other, requests that are answered in time, and clients that are slow alone."""

import asyncio
import json
import ssl
from contextlib import asynccontextmanager
from ipaddress import ip_network

import aiohttp
import pytest
from aiohttp import web
from faces.listener.echoing import Client, Clock
from harness.patience import TIMEOUT, turns, until
from harness.servers.tls import certify
from structlog.testing import capture_logs

from pubqueue.faces.http import BOUNDS, HttpHost
from pubqueue.faces.listener import Bounds, CannotListenError, Place, Tls, TlsFiles

HOST = "127.0.0.1"
LARGE = b"x" * (16 << 20)
GET = "GET {} HTTP/1.1\r\nHost: x\r\n\r\n"


class Greeting:
    """A part with answers of every kind."""

    def __init__(self):
        self.asked = asyncio.Event()
        self.go_on = asyncio.Event()
        self.asked_by = 0

    def add_to(self, app):
        app.router.add_get("/hello", self.hello)
        app.router.add_get("/slow", self.slow)
        app.router.add_get("/fault", self.fault)
        app.router.add_get("/late", self.late)
        app.router.add_post("/body", self.body)
        app.router.add_get("/large", self.large)

    async def hello(self, _request):
        return web.Response(text="hello")

    async def slow(self, _request):
        self.asked.set()
        self.asked_by += 1
        await self.go_on.wait()
        return web.Response(text="at last")

    async def fault(self, _request):
        raise ValueError("secret words")

    async def late(self, _request):
        raise TimeoutError

    async def body(self, request):
        return web.Response(text=f"{len(await request.read())}")

    async def large(self, _request):
        return web.Response(body=LARGE)


class Other:
    def add_to(self, app):
        app.router.add_get("/other", self.other)

    async def other(self, _request):
        return web.Response(text="other")


class Hosted:
    def __init__(self, host, greeting, clock, session):
        self.host, self.greeting, self.clock, self.session = host, greeting, clock, session
        self.clients = []

    @property
    def place(self):
        return f"http://{HOST}:{self.host.listener.addresses[0][1]}"

    @property
    def counts(self):
        return self.host.listener.counts

    @property
    def ended(self):
        return {str(why): count for why, count in self.counts.ended.items() if count}

    def pass_time(self, seconds):
        self.clock.now += seconds
        self.host.listener.look()

    async def get(self, path):
        async with self.session.get(self.place + path) as answer:
            return answer.status, await answer.text()

    async def client(self):
        self.clients.append(
            Client(*await asyncio.open_connection(*self.host.listener.addresses[0]))
        )
        return self.clients[-1]


@asynccontextmanager
async def hosted(bounds=BOUNDS, request=TIMEOUT, tls=None, proxies=tuple):
    clock, greeting = Clock(), Greeting()
    host = HttpHost([greeting], bounds, request=request, proxies=proxies, clock=clock)
    host.mount(Other())
    timeout = aiohttp.ClientTimeout(TIMEOUT)
    async with (
        aiohttp.ClientSession(timeout=timeout) as session,
        host.serving([Place(HOST, 0, tls)]),
    ):
        it = Hosted(host, greeting, clock, session)
        try:
            yield it
        finally:
            for client in it.clients:
                client.writer.transport.abort()
            await turns(3)


async def test_each_part_answers_for_itself():
    async with hosted() as it:
        assert await it.get("/hello") == (200, "hello")
        assert await it.get("/other") == (200, "other")
        assert (await it.get("/nothing"))[0] == 404
        async with it.session.get(it.place + "/hello") as answer:
            assert answer.headers["Server"] == "pubqueue"
        assert it.counts.open == 1


async def test_a_fault_is_an_answer_and_others_are_served():
    async with hosted() as it:
        status, said = await it.get("/fault")
        assert status == 500
        assert "secret" not in said
        assert (await it.get("/late"))[0] == 504, "another's time is not the host's"
        assert await it.get("/hello") == (200, "hello")


@pytest.mark.parametrize(
    ("bounds", "reason"),
    [
        (Bounds(connections=1, login=0), "connections"),
        (Bounds(per_peer=1, login=0), "peer"),
    ],
)
async def test_one_connection_too_many_is_asked_to_come_again(bounds, reason):
    async with hosted(bounds) as it:
        assert await it.get("/hello") == (200, "hello")
        async with aiohttp.ClientSession() as another, another.get(it.place + "/hello") as answer:
            assert (answer.status, await answer.text()) == (503, "too many connections.\n")
            assert answer.headers["Retry-After"] == "5"
        assert it.ended == {reason: 1}
        assert await it.get("/hello") == (200, "hello")


async def test_whose_request_does_not_come_in_time_is_cut_off_and_no_other():
    async with hosted(request=30) as it:
        slow = await it.client()
        slow.writer.write(b"GET /hello HTTP/1.1\r\nHost: x\r\n")
        assert await it.get("/hello") == (200, "hello")
        it.pass_time(29)
        assert it.counts.open == 2
        it.pass_time(2)
        assert await slow.line() == ""
        assert it.ended == {"request": 1}
        assert await it.get("/hello") == (200, "hello")


async def test_a_trickle_of_a_head_takes_no_longer():
    async with hosted(request=30) as it:
        slow = await it.client()
        for _ in range(3):
            slow.writer.write(b"GET ")
            await slow.writer.drain()
            it.pass_time(11)
        assert await slow.line() == ""


async def test_a_body_that_does_not_come_in_time_is_refused():
    async with hosted(request=0.05) as it:
        slow = await it.client()
        slow.writer.write(b"POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n12345")
        assert (await slow.line()).startswith("HTTP/1.1 408 ")


async def test_a_slow_answer_is_reported():
    async with hosted(request=0.05) as it:
        status, said = await it.get("/slow")
        assert (status, json.loads(said)["detail"]) == (503, "this takes too long")
        assert await it.get("/hello") == (200, "hello")


async def test_a_client_that_does_not_read_the_answer_is_closed_in_time():
    async with hosted(Bounds(login=0, unread=60)) as it:
        slow = await it.client()
        slow.writer.write(GET.format("/large").encode())
        assert (await slow.line()) == "HTTP/1.1 200 OK"
        slow.writer.transport.pause_reading()
        await until(lambda: any(one.is_full for one in it.host.listener.connections))
        it.pass_time(59)
        assert it.counts.open == 1
        it.pass_time(2)
        await until(lambda: it.counts.open == 0)
        assert it.ended == {"unread": 1}


async def test_a_body_that_is_too_large_is_refused():
    async with (
        hosted() as it,
        it.session.post(it.place + "/body", data=b"x" * (1 << 20)) as answer,
    ):
        assert answer.status == 413


async def test_a_client_that_does_not_use_http_gets_an_answer():
    async with hosted() as it:
        client = await it.client()
        assert (await client.ask("\0\1rubbish\r\n\r")).startswith("HTTP/1.0 400")
        assert await it.get("/hello") == (200, "hello")


async def test_a_request_that_is_being_answered_is_answered_before_the_end():
    async with hosted() as it:
        asking = asyncio.create_task(it.get("/slow"))
        await it.greeting.asked.wait()
        asyncio.get_running_loop().call_soon(it.greeting.go_on.set)
    assert await asking == (200, "at last")


async def test_an_address_that_is_taken_leaves_nothing():
    async with hosted() as it:
        other = HttpHost()
        with pytest.raises(CannotListenError, match="cannot be listened on"):
            async with other.serving([Place(*it.host.listener.addresses[0])]):
                pass


async def test_https_with_a_certificate_that_is_read_again(tmp_path):
    key, certificate = await certify(tmp_path, "localhost")
    tls = Tls(TlsFiles(str(certificate), str(key)), face="http", alpn=("http/1.1",))
    async with hosted(tls=tls) as it:
        address = it.host.listener.addresses[0]

        async def ask():
            more = {"ssl": ssl.create_default_context(cafile=certificate)}
            found = await asyncio.open_connection(*address, server_hostname="localhost", **more)
            it.clients.append(client := Client(*found))
            said = await client.ask(GET.format("/hello").strip() + "\r\n\r")
            return said, len(client.writer.get_extra_info("peercert")["subject"])

        assert await ask() == ("HTTP/1.1 200 OK", 1)
        await certify(tmp_path, "localhost", "O=second")
        await it.host.reload()
        assert await ask() == ("HTTP/1.1 200 OK", 2)
        certificate.write_text("rubbish")
        with capture_logs() as log:
            await it.host.reload()
        assert [line["event"] for line in log] == ["tls.refused"]
        plain = await it.client()
        assert b"HTTP/1.1" not in await plain.rest(GET.format("/hello"))
        assert it.ended == {"handshake": 1}


async def test_behind_a_proxy_the_limit_for_an_address_is_that_of_each_client():
    networks = [ip_network(f"{HOST}/32")]
    async with hosted(Bounds(per_peer=2, login=0), proxies=lambda: networks) as it:
        url, one, other = it.place + "/slow", *({"X-Forwarded-For": f"192.0.2.{n}"} for n in "12")
        waiting = [asyncio.create_task(it.session.get(url, headers=one)) for _ in range(2)]
        await until(lambda: it.greeting.asked_by == 2)
        async with it.session.get(it.place + "/hello", headers=one) as answer:
            assert (answer.status, answer.headers["Retry-After"]) == (503, "5")
        assert it.ended == {"peer": 1}
        async with it.session.get(it.place + "/hello", headers=other) as answer:
            assert answer.status == 200
        it.greeting.go_on.set()
        for answer in await asyncio.gather(*waiting):
            assert answer.status == 200
            answer.release()
        async with it.session.get(it.place + "/hello", headers=one) as answer:
            assert answer.status == 200, "what is over counts no more"
