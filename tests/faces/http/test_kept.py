"""What is kept of requests and answers counts: of strangers, then of the account, until the answer has gone; and what is given up."""

import asyncio
import json
import tracemalloc
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from faces.listener.echoing import Client
from harness.patience import TIMEOUT, turns, until

from pubqueue.faces.http import BOUNDS, HttpHost, host
from pubqueue.faces.listener import Place
from pubqueue.faces.listener.budget import STRANGERS, Budget

HOST = "127.0.0.1"
MIB = 1 << 20
LARGE, SMALL = 16 * MIB, b"x" * 50_000
HEAD = "POST {} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n"


class Part:
    """Reads bodies for the account `eve`, or for nobody; some answers wait, or are large."""

    def __init__(self):
        self.go_on = asyncio.Event()
        self.waiting = 0
        self.kept = []
        """What was kept when each piece was made."""

    def add_to(self, app):
        app.router.add_post("/body", self.body)
        app.router.add_post("/mine", self.mine)
        app.router.add_post("/wait", self.wait)
        app.router.add_get("/wait", self.wait)
        app.router.add_get("/large", self.large)
        app.router.add_get("/stream", self.stream)
        app.router.add_get("/pieces", self.pieces)
        app.router.add_get("/mine", self.small)

    async def body(self, request):
        try:
            return web.Response(text=f"{len(await host.read(request, MIB, TIMEOUT))}")
        except host.BodyError as problem:
            return web.Response(status=problem.status)

    async def mine(self, request):
        host.known("eve")
        return await self.body(request)

    async def wait(self, request):
        answer = await self.mine(request)
        self.waiting += 1
        await self.go_on.wait()
        return answer

    async def large(self, _request):
        host.known("eve")
        return web.Response(body=b"x" * LARGE)

    async def small(self, _request):
        host.known("eve")
        return web.Response(body=SMALL)

    async def pieces(self, request):
        host.known("eve")
        answer = web.StreamResponse()
        await answer.prepare(request)
        await host.send_pieces(answer, self.made_for(b"x" * (LARGE >> 8)), LARGE)
        return answer

    def made_for(self, piece):
        for _ in range(256):
            self.kept.append(self.budget.of("eve"))
            yield piece

    async def stream(self, request):
        host.known("eve")
        answer = web.StreamResponse()
        await answer.prepare(request)
        await host.send(answer, b"x" * LARGE)
        return answer


class Hosted:
    def __init__(self, host, part, budget):
        self.host, self.part, self.budget, self.clients = host, part, budget, []

    @property
    def ended(self):
        return {str(why): n for why, n in self.host.listener.counts.ended.items() if n}

    @property
    def client_at(self):
        """The connection of the only client."""
        (one,) = self.host.listener.connections
        return one

    async def client(self, *words):
        self.clients.append(
            Client(*await asyncio.open_connection(*self.host.listener.addresses[0]))
        )
        for one in words:
            self.clients[-1].writer.write(one.encode() if isinstance(one, str) else one)
        return self.clients[-1]

    async def keeps(self, owner, size):
        """Wait until so much is kept for an owner, and nothing for others."""
        await until(lambda: self.budget.of(owner) == self.budget.size == size)


async def answer(client):
    """Return the status, the headers and the body of the next answer."""
    async with asyncio.timeout(TIMEOUT):
        head = (await client.reader.readuntil(b"\r\n\r\n")).decode()
        lines = dict(line.split(": ", 1) for line in head.splitlines()[1:] if line)
        body = await client.reader.readexactly(int(lines["Content-Length"]))
    return int(head.split()[1]), lines, body


@asynccontextmanager
async def hosted(most=48 * MIB):
    part, budget = Part(), Budget(most)
    part.budget = budget
    made = HttpHost([part], BOUNDS, request=TIMEOUT, budget=budget)
    async with made.serving([Place(HOST, 0)]):
        it = Hosted(made, part, budget)
        try:
            yield it
        finally:
            for one in it.clients:
                one.writer.transport.abort()
            await turns(3)


# --- heads ---------------------------------------------------------------------------------------


async def test_a_head_that_is_not_whole_is_kept_for_a_stranger_until_it_is_answered():
    async with hosted() as it:
        head = HEAD.format("/body", 2) + "".join(f"X-{n}: {'y' * 4000}\r\n" for n in range(8))
        head = head.replace("\r\n\r\n", "\r\n", 1)
        client = await it.client(head)
        await it.keeps(STRANGERS, len(head))
        client.writer.write(b"\r\n12")
        assert (await answer(client))[::2] == (200, b"2")
        await it.keeps(STRANGERS, 0)


async def test_what_begins_behind_a_request_is_kept_when_that_is_answered():
    async with hosted() as it:
        client = await it.client(HEAD.format("/body", 1), "1", "POST / HTTP/1.1\r\nX: ", "y" * 8000)
        assert (await answer(client))[0] == 200
        await it.keeps(STRANGERS, 8020)


@pytest.mark.parametrize("is_whole", [True, False])
async def test_the_fields_of_a_head_have_64_kib_together(is_whole):
    fields = "".join(f"X-{n}: {'y' * 8000}\r\n" for n in range(9))
    async with hosted() as it:
        client = await it.client(f"GET /wait HTTP/1.1\r\nHost: x\r\n{fields}", "\r\n" * is_whole)
        status, headers, body = await answer(client)
        assert (status, headers["Content-Type"]) == (431, "application/problem+json")
        assert json.loads(body)["limit"] == 64 << 10
        assert await client.line() == ""
        assert it.part.waiting == it.budget.size == 0


async def test_a_head_of_many_cookies_is_taken():
    fields = "".join(f"Cookie: {n}={'y' * 7900}\r\n" for n in range(8))
    async with hosted() as it:
        client = await it.client(HEAD.format("/body", 1).strip() + f"\r\n{fields}\r\n1")
        assert (await answer(client))[0] == 200


# --- bodies --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("path", "owner"), [("/body", STRANGERS), ("/mine", "eve")])
async def test_a_body_that_is_not_whole_is_kept_for_the_account(path, owner):
    async with hosted() as it:
        head = HEAD.format(path, 100_000)
        client = await it.client(head, b"x" * 99_999)
        await it.keeps(owner, len(head) + 99_999)
        client.writer.write(b"x")
        assert (await answer(client))[::2] == (200, b"100000")
        await it.keeps(owner, 0)


async def test_a_body_that_is_whole_is_kept_until_its_request_is_answered():
    async with hosted() as it:
        head = HEAD.format("/wait", 100_000)
        client = await it.client(head, b"x" * 100_000)
        await until(lambda: it.part.waiting)
        await it.keeps("eve", len(head) + 100_000)
        it.part.go_on.set()
        assert (await answer(client))[0] == 200
        await it.keeps("eve", 0)


async def test_the_rest_of_a_body_that_was_refused_is_dropped_and_does_not_count():
    async with hosted() as it:
        client = await it.client(HEAD.format("/body", 2 * MIB))
        assert (await answer(client))[0] == 413
        client.writer.write(b"x" * 100_000)
        await client.writer.drain()
        client.writer.write(b"x" * (2 * MIB - 100_000) + HEAD.format("/body", 1).encode() + b"1")
        assert (await answer(client))[0] == 200
        assert it.budget.size == 0


async def test_the_oldest_of_who_keeps_most_is_asked_to_come_again_and_others_go_on():
    async with hosted(300_000) as it:
        head = HEAD.format("/mine", 100_000)
        stranger = await it.client(HEAD.format("/body", 40_000), b"x" * 39_999)
        await until(lambda: it.budget.of(STRANGERS))
        first = await it.client(head, b"x" * 99_999)
        await until(lambda: it.budget.of("eve") > 99_999)
        second = await it.client(head, b"x" * 99_999)
        await until(lambda: it.budget.of("eve") > 199_999)
        third = await it.client(head, b"x" * 99_999)
        status, headers, body = await answer(first)
        assert (status, headers["Retry-After"], headers["Connection"]) == (503, "5", "close")
        assert json.loads(body)["type"].endswith("unavailable")
        assert await first.line() == ""
        for one in (stranger, second, third):
            one.writer.write(b"x")
            assert (await answer(one))[0] == 200
        assert it.ended == {"memory": 1}


async def test_a_request_that_waits_ends_when_it_is_given_up():
    async with hosted(250_000) as it:
        first, *others = [
            await it.client(HEAD.format("/wait", 100_000), b"x" * 100_000) for _ in range(2)
        ]
        await until(lambda: it.part.waiting == 2)
        others.append(await it.client(HEAD.format("/wait", 100_000), b"x" * 100_000))
        assert (await answer(first))[0] == 503
        await until(lambda: it.part.waiting == 3)
        it.part.go_on.set()
        for one in others:
            assert (await answer(one))[0] == 200
        await it.keeps("eve", 0)


async def test_what_is_sent_behind_a_request_that_waits_is_read_no_further():
    """The client has 16 MiB behind the first request. The host keeps a part of that, and does all of it in order."""
    async with hosted() as it:
        client = await it.client("GET /wait HTTP/1.1\r\nHost: x\r\n\r\n")
        await until(lambda: it.part.waiting)
        client.writer.write((HEAD.format("/body", 100_000).encode() + b"x" * 100_000) * 160)
        (at,) = it.host.listener.connections
        await until(lambda: not at.is_read)
        await turns(20)
        assert 0 < it.budget.of("eve") == it.budget.size < MIB
        it.part.go_on.set()
        for _ in range(161):
            assert (await answer(client))[0] == 200
        await it.keeps(STRANGERS, 0)


# --- answers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/large", "/stream"])
async def test_an_answer_is_kept_once_until_the_client_has_read_it(path):
    async with hosted() as it:
        tracemalloc.start()
        try:
            client = await it.client(f"GET {path} HTTP/1.0\r\nHost: x\r\n\r\n")
            client.writer.transport.pause_reading()
            await until(lambda: it.budget.of("eve") >= LARGE and it.client_at.is_full)
            assert it.client_at.unsent <= it.budget.size - LARGE < MIB // 2
            assert tracemalloc.get_traced_memory()[0] < LARGE + MIB
        finally:
            tracemalloc.stop()
        client.writer.transport.resume_reading()
        async with asyncio.timeout(TIMEOUT):
            assert (await client.reader.read()).endswith(b"\r\n\r\n" + b"x" * LARGE)
        await it.keeps("eve", 0)


async def test_small_answers_that_are_not_read_are_kept_for_who_asked():
    async with hosted() as it:
        client = await it.client("GET /mine HTTP/1.1\r\nHost: x\r\n\r\n" * 300)
        client.writer.transport.pause_reading()
        await until(lambda: it.client_at.is_full)
        assert 0 < it.client_at.unsent <= it.budget.of("eve") < MIB
        client.writer.transport.resume_reading()
        for _ in range(300):
            assert (await answer(client))[2] == SMALL
        await it.keeps(STRANGERS, 0)


async def test_of_answers_that_are_not_read_the_oldest_is_cut_off():
    async with hosted(40 * MIB) as it:
        slow = [await it.client("GET /large HTTP/1.1\r\nHost: x\r\n\r\n") for _ in range(3)]
        for one in slow:
            one.writer.transport.pause_reading()
        await until(lambda: it.ended == {"memory": 1})
        assert it.budget.of("eve") < 2 * LARGE + MIB
        sizes = []
        for one in slow:
            one.writer.transport.resume_reading()
            async with asyncio.timeout(TIMEOUT):
                head = await one.reader.readuntil(b"\r\n\r\n")
                assert head.startswith(b"HTTP/1.1 200")
                try:
                    sizes.append(len(await one.reader.readexactly(LARGE)))
                except (asyncio.IncompleteReadError, ConnectionError):
                    sizes.append(0)
        assert sorted(sizes) == [0, LARGE, LARGE], "no other answer comes in the middle of one"


async def test_pieces_are_counted_before_the_first_is_made_and_made_as_they_are_read():
    async with hosted() as it:
        client = await it.client("GET /pieces HTTP/1.1\r\nHost: x\r\n\r\n")
        await until(lambda: it.client_at.is_full)
        await turns(3)
        made = len(it.part.kept)
        assert made < 200, "the sockets take some"
        assert min(it.part.kept) >= LARGE
        async with asyncio.timeout(TIMEOUT):
            size = 0
            while size < LARGE:
                size += len(await client.reader.read(MIB))
        await until(lambda: len(it.part.kept) == 256)
        await it.keeps("eve", 0)
