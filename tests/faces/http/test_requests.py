"""HTTP/1.1 byte for byte (RFC 9112): what clients may send is answered, and what a proxy could read otherwise is refused."""

import asyncio
import re

import pytest
from aiohttp import web
from harness.patience import TIMEOUT
from structlog.testing import capture_logs

from pubqueue.faces.http import HttpHost
from pubqueue.faces.http.host import is_same_origin
from pubqueue.faces.listener import Place

HOST = "127.0.0.1"
HEAD = b"POST /echo HTTP/1.1\r\nHost: x\r\n"
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"


class Repeats:
    """A part that answers with the body, and notes which paths were asked for."""

    def __init__(self):
        self.paths = []

    def add_to(self, app):
        app.router.add_route("*", "/{path:.*}", self.answer)

    async def answer(self, request):
        self.paths.append(request.path)
        return web.Response(body=await request.read())


@pytest.fixture
async def echo():
    part = Repeats()
    async with HttpHost([part]).serving([Place(HOST, 0)]) as [(_, port)]:
        part.port = port
        yield part


async def said(port, *pieces):
    """Send pieces on a connection; return all that comes until the service closes it, which it is asked to do."""
    reader, writer = await asyncio.open_connection(HOST, port)
    found = b""
    try:
        async with asyncio.timeout(TIMEOUT):
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
            found = await reader.read()
    except ConnectionError:
        pass
    finally:
        writer.close()
    return found


def statuses(answers):
    return [int(found) for found in re.findall(rb"HTTP/1\.[01] (\d{3}) ", answers)]


LAST = b"GET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


async def test_requests_that_come_together_are_answered_in_their_order(echo):
    one = HEAD + b"Content-Length: 3\r\n\r\none"
    two = HEAD + b"Content-Length: 3\r\n\r\ntwo"
    answers = await said(echo.port, one + two + LAST)
    assert statuses(answers) == [200] * 3
    assert 0 < answers.index(b"one") < answers.index(b"two")


async def test_a_body_in_chunks_is_the_same_body(echo):
    chunks = b"3\r\none\r\n4;more=x\r\n-two\r\n0\r\nTrailer: x\r\n\r\n"
    whole = HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunks
    pieces = [whole[at : at + 1] for at in range(len(whole))]
    answers = await said(echo.port, *pieces, LAST)
    assert statuses(answers) == [200, 200]
    assert b"one-two" in answers


async def test_a_client_that_expects_continue_gets_100(echo):
    reader, writer = await asyncio.open_connection(HOST, echo.port)
    async with asyncio.timeout(TIMEOUT):
        writer.write(HEAD + b"Content-Length: 3\r\nExpect: 100-continue\r\n\r\n")
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"one" + LAST)
        answers = await reader.read()
    writer.close()
    assert statuses(answers) == [200, 200]


async def test_another_expectation_is_refused(echo):
    head = HEAD + b"Connection: close\r\nContent-Length: 3\r\nExpect: a miracle\r\n\r\none"
    assert statuses(await said(echo.port, head)) == [417]


async def test_http_1_0_is_answered_and_the_connection_closed(echo):
    answers = await said(echo.port, b"POST /echo HTTP/1.0\r\nContent-Length: 3\r\n\r\none")
    assert answers.startswith(b"HTTP/1.0 200 ")
    assert answers.endswith(b"\r\n\r\none")


async def test_head_has_no_body(echo):
    answers = await said(echo.port, b"HEAD /echo HTTP/1.1\r\nHost: x\r\n\r\n" + LAST)
    assert statuses(answers) == [200, 200]


SHAPES = {
    "both lengths": HEAD + b"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "both lengths, reversed": HEAD
    + b"Transfer-Encoding: chunked\r\nContent-Length: 6\r\n\r\n0\r\n\r\n",
    "two lengths": HEAD + b"Content-Length: 0\r\nContent-Length: 6\r\n\r\n",
    "a list of lengths": HEAD + b"Content-Length: 0, 6\r\n\r\n",
    "a length with a sign": HEAD + b"Content-Length: +0\r\n\r\n",
    "a negative length": HEAD + b"Content-Length: -1\r\n\r\n",
    "a hexadecimal length": HEAD + b"Content-Length: 0x6\r\n\r\n",
    "a length with an underscore": HEAD + b"Content-Length: 1_0\r\n\r\n",
    "a length without end": HEAD + b"Content-Length: " + b"9" * 40 + b"\r\n\r\n",
    "an empty length": HEAD + b"Content-Length: \r\n\r\n",
    "a space before the colon": HEAD + b"Content-Length : 6\r\n\r\n",
    "a tab before the colon": HEAD + b"Transfer-Encoding\t: chunked\r\n\r\n0\r\n\r\n",
    "a folded line": HEAD + b"X: a\r\n b\r\n\r\n",
    "a folded coding": HEAD + b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
    "a line that begins with a space": b"POST /echo HTTP/1.1\r\n Host: x\r\n\r\n",
    "a return alone": HEAD + b"X: a\rContent-Length: 6\r\n\r\n",
    "a NUL": HEAD + b"X: a\0b\r\n\r\n",
    "a NUL in a name": HEAD + b"X\0: a\r\n\r\n",
    "chunked twice": HEAD + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    "chunked in two fields": HEAD
    + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunked, but not last": HEAD + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "an unknown coding": HEAD + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "identity": HEAD + b"Transfer-Encoding: identity\r\nContent-Length: 0\r\n\r\n",
    "chunked in quotes": HEAD + b'Transfer-Encoding: "chunked"\r\n\r\n0\r\n\r\n',
    "a chunk of no size": HEAD + b"Transfer-Encoding: chunked\r\n\r\n\r\n0\r\n\r\n",
    "a chunk of a negative size": HEAD + b"Transfer-Encoding: chunked\r\n\r\n-1\r\nx\r\n0\r\n\r\n",
    "a chunk of 0x": HEAD + b"Transfer-Encoding: chunked\r\n\r\n0x1\r\nx\r\n0\r\n\r\n",
    "a chunk without end": HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"F" * 17 + b"\r\nx",
    "a chunk that is longer than its size": HEAD
    + b"Transfer-Encoding: chunked\r\n\r\n1\r\nxy\r\n0\r\n\r\n",
    "chunks in HTTP/1.0": b"POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "no host": b"POST /echo HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
    "two hosts": HEAD + b"Host: y\r\nContent-Length: 0\r\n\r\n",
    "another version": b"POST /echo HTTP/3.7\r\nHost: x\r\n\r\n",
    "no version": b"GET /echo\r\n\r\n",
    "a space in the path": b"GET /a b HTTP/1.1\r\nHost: x\r\n\r\n",
    "a method that is none": b"GE(T /echo HTTP/1.1\r\nHost: x\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "a long line": b"GET /" + b"a" * 9_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    "a long field": HEAD + b"X: " + b"a" * 9_000 + b"\r\n\r\n",
    "too many fields": HEAD + b"".join(b"X%d: a\r\n" % n for n in range(200)) + b"\r\n",
}


@pytest.mark.parametrize("shape", SHAPES)
async def test_what_could_be_read_in_two_ways_is_refused_and_nothing_behind_it_is_done(
    echo, shape, caplog
):
    with capture_logs() as logs:
        answers = await said(echo.port, SHAPES[shape] + SMUGGLED + LAST)
    assert statuses(answers) == [400], answers
    assert "/smuggled" not in echo.paths
    assert caplog.records == []
    assert {line["event"] for line in logs} <= {"request.malformed"}
    assert all("smuggled" not in str(line) for line in logs)


@pytest.mark.parametrize("path", [b"/echo", b"/nowhere"])
@pytest.mark.parametrize("expected", [b"\xe9", b"200-ok", b""])
async def test_an_expectation_that_is_not_known_is_refused(path, expected):
    async with HttpHost([_OnePath()]).serving([Place(HOST, 0)]) as [(_, port)]:
        head = b"GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nExpect: %s\r\n\r\n"
        with capture_logs() as logs:
            answers = await said(port, head % (path, expected))
    refused = [417] if expected else statuses(answers)
    assert (statuses(answers), logs) == (refused, [])


async def test_a_client_of_http_1_0_has_no_expectations(echo):
    head = HEAD.replace(b"1.1", b"1.0") + b"Expect: 100-continue\r\nContent-Length: 3\r\n\r\none"
    answers = await said(echo.port, head)
    assert (statuses(answers), answers[-3:]) == ([200], b"one")


async def test_a_client_that_leaves_is_not_a_fault(echo, monkeypatch):
    left = asyncio.Event()

    async def leave(_request):
        left.set()
        raise ConnectionResetError

    monkeypatch.setattr(echo, "answer", leave)
    async with HttpHost([echo]).serving([Place(HOST, 0)]) as [(_, port)]:
        with capture_logs() as logs:
            await said(port, LAST)
    assert left.is_set()
    assert logs == []


class _OnePath:
    def add_to(self, app):
        async def answer(_request):
            return web.Response()

        app.router.add_get("/echo", answer)


# --- pages of other sites ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("origin", "host", "is_same"),
    [
        # a browser's; and the address that is called, as websocket-client, Tyrus and vert.x send it
        *[
            (f"{scheme}://{host}", host, True)
            for scheme in ("http", "https", "ws", "wss", "WS")
            for host in ("127.0.0.1:8080", "queue.example.org", "[::1]:8080", "localhost:1")
        ],
        ("https://Queue.example.org", "queue.Example.org", True),
        # the port of the scheme need not be written
        ("http://a.example:80", "a.example", True),
        ("ws://a.example", "a.example:80", True),
        ("wss://a.example", "a.example:443", True),
        ("https://a.example:443", "a.example", True),
        ("http://a.example:443", "a.example", False),
        ("ws://a.example", "a.example:443", False),
        ("https://a.example", "a.example:80", False),
        # another host or port
        ("http://a.example:8081", "a.example:8080", False),
        ("http://a.example", "a.example:8080", False),
        ("http://evil.example", "a.example", False),
        ("http://a.example.evil.example", "a.example", False),
        ("http://evil.example/a.example", "a.example", False),
        ("http://a.example@evil.example", "a.example", False),
        ("http://evil.example@a.example", "a.example", False),
        # no origin of a host
        *[
            (origin, "a.example", False)
            for origin in ("", "null", "a.example", "//a.example", "file://a.example", "http://[")
        ],
        ("http://", "", False),
        ("http://:80", "", False),
        ("http:///", "", False),
        ("http://a.example/", "a.example", False),
        ("http://a.example\u2100", "a.example", False),
    ],
)
def test_the_same_host_and_port_are_the_same_origin(origin, host, is_same):  # N27
    assert is_same_origin(origin, host) is is_same
