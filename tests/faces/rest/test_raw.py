"""Bytes on the socket: slow clients, bodies that are too large, and shapes by which requests are smuggled."""

import asyncio
import base64
import time
from urllib.parse import urlsplit

import pytest
from faces.rest.clients import client, hosted, served
from harness.patience import TIMEOUT
from harness.servers.users import RIGHT

WHO = "Authorization: Basic " + base64.b64encode(f"etl:{RIGHT}".encode()).decode() + "\r\n"
POST = "POST /rest/queues/jobs/messages HTTP/1.1\r\nHost: q\r\n" + WHO


async def exchange(root, data, *, end=False):
    """Send bytes and return all that is answered until the connection ends or `end`, a short time without more."""
    at = urlsplit(root)
    reader, writer = await asyncio.open_connection(at.hostname, at.port)
    try:
        writer.write(data.encode() if isinstance(data, str) else data)
        await writer.drain()
        if end:
            writer.write_eof()
        return await asyncio.wait_for(reader.read(), TIMEOUT)
    finally:
        writer.close()


CLOSE = "Connection: close\r\n"


async def test_a_body_in_chunks_is_one_body(rest):  # W17
    answer = await exchange(
        rest.root,
        POST + CLOSE + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
    )
    assert answer.startswith(b"HTTP/1.1 201 ")
    assert await bodies(rest) == [b"abcde"]


async def test_pipelined_requests_are_answered_in_order(rest):  # W17
    one = POST + "Content-Length: 1\r\n\r\n"
    last = POST + CLOSE + "Content-Length: 1\r\n\r\n3"
    answer = await exchange(rest.root, one + "1" + one + "2" + last)
    assert answer.count(b"HTTP/1.1 201 ") == 3
    assert await bodies(rest) == [b"1", b"2", b"3"]


async def test_http_1_0_and_an_empty_post_without_a_length(rest):  # W17, R02
    old = POST.replace("HTTP/1.1", "HTTP/1.0") + "Content-Length: 1\r\n\r\nx"
    assert b" 201 " in await exchange(rest.root, old)
    assert b" 201 " in await exchange(rest.root, POST + CLOSE + "\r\n")
    assert await bodies(rest) == [b"x", b""]


async def test_100_continue_is_answered_and_a_body_that_is_too_large_is_refused_before(
    rest,
):  # W13, W17
    expect = POST + CLOSE + "Expect: 100-continue\r\nContent-Length: {}\r\n\r\n"
    answer = await exchange(rest.root, expect.format(1) + "x")
    assert answer.startswith(b"HTTP/1.1 100 Continue\r\n")
    assert b"HTTP/1.1 201 " in answer
    large = await exchange(rest.root, expect.format(10**9))
    assert large.startswith(b"HTTP/1.1 413 ")
    assert b"100 Continue" not in large


@pytest.mark.parametrize(
    "head",
    [
        "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n0\r\n\r\n",
        "Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
        "Content-Length: +1\r\n\r\nx",
        "Content-Length: 1,1\r\n\r\nx",
        "Content-Length: -1\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\nz\r\n",
        "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        "A\0b: c\r\n\r\n",
        " folded: x\r\n\r\n",
        "X" * 20_000 + ": y\r\n\r\n",
    ],
)
async def test_shapes_that_two_servers_read_differently_are_refused(rest, head):  # W17
    answer = await exchange(rest.root, POST + head, end=True)
    assert not answer or answer.split(b" ", 2)[1] in {b"400", b"431"}, answer
    assert await bodies(rest) == []
    assert b"Traceback" not in answer


@pytest.mark.parametrize(
    "length", ["Content-Length: 400000\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n"]
)
async def test_a_body_that_is_too_large_is_not_read(rest, length):  # W13
    body = b"x" * 400_000
    if "chunked" in length:
        body = b"".join(b"10000\r\n" + b"x" * 65_536 + b"\r\n" for _ in range(5))
    answer = await exchange(rest.root, (POST + length).encode() + body)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"\r\nConnection: close\r\n" in answer
    assert await bodies(rest) == []


async def test_a_refused_body_costs_its_account_what_has_come(rest):
    """Else one wrong length would hold up all programs of the account for years."""
    answer = await exchange(rest.root, POST + "Content-Length: 9999999999999999999\r\n\r\nabc")
    assert answer.startswith(b"HTTP/1.1 413 ")
    etl = await rest.as_()
    for _ in range(3):
        assert (await etl.post("/queues/jobs/messages", content=b"a")).status_code == 201


async def test_slow_heads_and_bodies_are_closed_and_others_are_served_meanwhile():  # W13
    stands = [time.monotonic()]

    def clock():
        """Return the time of heads, which begins to pass when the others are served: they have heads too."""
        return stands[0] if stands else time.monotonic()

    bounds = {"request": 20.0, "head": 0.3, "clock": clock}
    async with served(body_timeout=0.3) as rest:
        await rest.make("jobs")
        async with hosted(rest.face, **bounds) as root, client(root) as etl:
            slow = [
                asyncio.create_task(exchange(root, "POST /rest/")),
                asyncio.create_task(exchange(root, POST + "Content-Length: 9\r\n\r\nx")),
            ]
            assert (await etl.get("/queues/jobs")).status_code == 200
            stands.clear()
            head, body = await asyncio.gather(*slow)
        assert head == b""
        assert body.startswith(b"HTTP/1.1 408 ")
        assert b"urn:x-pubqueue:problem:too-slow" in body
        assert await bodies(rest) == []


async def test_a_compressed_body_is_passed_on_as_it_is(rest):  # W05
    etl, bee = await rest.as_(), await rest.as_("bee")
    garbage = b"\x1f\x8bno gzip"
    to = f"{rest.root}/queues/jobs/messages"
    sent = await etl.post(to, content=garbage, headers={"Content-Encoding": "x-own"})
    assert sent.status_code == 201
    message = await bee.post(f"{rest.root}/queues/jobs/consumer")
    assert (message.content, message.headers["Content-Encoding"]) == (garbage, "x-own")
    bomb = POST + CLOSE + f"Content-Encoding: gzip\r\nContent-Length: {len(garbage)}\r\n\r\n"
    assert (await exchange(rest.root, bomb.encode() + garbage)).startswith(b"HTTP/1.1 201 ")


async def bodies(rest):
    """The bodies in the queue, in order."""
    found = []
    etl = await rest.as_("etl")
    while (message := await etl.post("/queues/jobs/consumer")).status_code == 200:
        found.append(message.content)
    return found
