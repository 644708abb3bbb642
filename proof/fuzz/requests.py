"""`.venv/bin/python -m proof.fuzz.requests`: 50,000 HTTP requests, byte for byte, to a service with all that it serves on one port.

These are the page, the operations, metrics and health, both profiles of REST, Pub/Sub in JSON, and STOMP over WebSocket. Each request is made of a path
that is there and of pieces at which parsers fail. No answer may be a fault, and none may be logged.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from contextlib import asynccontextmanager
from functools import partial
from itertools import islice
from random import Random
from typing import TYPE_CHECKING, Final

import aiohttp
import click
from harness.patience import LOOK, TIMEOUT, until
from harness.processes.program import Program
from harness.servers.users import table

from proof.fuzz.outcome import FaultError, faults, print_outcome
from pubqueue.faces.grpc.transcoding import ROWS, VERSION
from pubqueue.faces.rest.hornetq.routes import ROUTES as OF_HORNETQ
from pubqueue.faces.rest.star.routes import ROUTES
from pubqueue.loopback import free_ports
from pubqueue.monitor.api.openapi import method_of
from pubqueue.monitor.asking import FORM
from pubqueue.operations.table import OPERATIONS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Container, Iterable, Iterator, Sequence
    from pathlib import Path

TOKEN: Final = "a-token-for-all-that-is-served"
BEARER: Final = b"Bearer " + TOKEN.encode()
UNABLE: Final = frozenset({501, 503, 505, 507})
"""Statuses from 500 on that are no faults."""
ANSWER_TIMEOUT: Final = 5.0
"""Seconds for an answer: some requests are not complete, and get none."""
AT_ONCE: Final = 8
PAGES: Final = (
    "/",
    "/ui",
    "/ui/",
    *(
        f"/ui/{name}"
        for name in ("queue", "items", "reasons", "item", "ask", "do", "logout", "static/page.js")
    ),
)
OTHERS: Final = ("/metrics", "/healthz", "/readyz", "/stomp", "/nowhere", "*", "//", "/%00")
SEGMENTS: Final = ("jobs", "a%00b", "news", "1", "a", "9" * 20, "%ff", "00", "%00")
ODD: Final = (0, 1, 1, 2, 3)
"""How many odd headers a request has."""
METHODS: Final = ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE", "LOCK")

NAMES: Final = tuple(
    b"Accept Accept-Encoding Accept-Language Accept-Wait Access-Control-Request-Headers"
    b" Access-Control-Request-Method Connection Content-Disposition Content-Encoding"
    b" Content-Language Content-Length Content-Type Cookie Date Expect Expires Forwarded Host"
    b" Idempotency-Key If-Match If-Modified-Since If-None-Match Last-Event-ID Link Message-Ack-Mode Message-Delay"
    b" Message-Expires Message-Failed Message-Group Message-Id Message-Priority Message-Selector Message-Ttl Message-Wait"
    b" Origin Prefer Priority Range Referer Retry-After Sec-Fetch-Site Sec-WebSocket-Key Sec-WebSocket-Protocol"
    b" Sec-WebSocket-Version Slug Transfer-Encoding Upgrade X-Forwarded-For X-Forwarded-Host X-Forwarded-Prefix"
    b" X-Forwarded-Proto X-HTTP-Method-Override X-Pubqueue-Part X-RS-Wait".split()
)
VALUES: Final = (
    *(b"", b"\x80\xff", "é".encode(), b"\t", b'"', b'W/"', b"*", b"null", b"a=b; c", b"=;=;=", b"<", b"<a>; rel=x", b"t\\"),
    *(b'<http://[>; rel="reply-to"', b"<http://[>; rel=reply-to", b"http://[", b"http://[::1", b"http://a:b:c", b"//", b"[", b":", b"http://x:99999999"),
    *(b"-1", b"0", b"-0", b"1e400", b"nan", b"9" * 19, b"9" * 5_000, "٣".encode(), b"1.5.5", b"+1"),
    *(b"q=;q=a", b"a;q=1e999", b"*/*;q=nan", b"text/html;q=inf,*/*;q=-1", b"/", b"a/b/c", b"application/json"),
    *(b"bytes=0-", b"bytes=-", b"wait=", b"wait=1e9", b"wait=" + b"9" * 19, b"respond-async, wait=1"),
    *(b'for="[::', b"for=_a;proto=http;host=[", b"1.2.3.4, [::1", b"999.1.1.1", b"unknown"),
    b"Digest a=b",
    *(b"multipart/mixed", b"multipart/mixed; boundary=", b'multipart/mixed; boundary="a', b"multipart/form-data; boundary=x"),
    *(b"application/json; charset=utf-16", b"application/json; charset=nope", b'text/plain; charset="', b"; charset=utf-8"),
    *(b"application/x-www-form-urlencoded; charset=rot13", b"application/atom+xml; charset=idna", b"application/xml"),
    *(b"chunked", b"gzip, chunked", b"identity", b"gzip", b"deflate", b"br", b"100-continue", b"websocket", b"upgrade"),
    *(b"Wed, 21 Oct 99999999999999999999 07:28:05 GMT", b"Mon, 01 Jan 0000 00:00:00", b"2026-01-01T00:00:00Z"),
    *(b"GET", b"cross-site", b"none", b"attachment; filename*=utf-8''%ff", b"a=" * 500, b"x" * 7_000, b"13", b"v12.stomp"),
)  # fmt: skip
CREDENTIALS: Final = (
    *(b"Basic", b"Basic ====", b"Basic YQ==", b"Basic //46eA==", b"Basic gDp4"),
    *(b"Bearer", b"Bearer \xff", b"Bearer " + b"x" * 5_000, b"Digest a=b", b"\xff"),
)
"""Sent after everything else: an address that has sent wrong ones has to wait."""
QUERIES: Final = tuple(
    b"? ?note=\xff&mark=\xff ?node=\xff&id=\xff&to=\xff&q=\xff&max=\xff /\xff"
    b" ?a=% ?node=%ff ?node=jobs&node=jobs ?node=jobs&after=%00 ?node=jobs&after=-1 ?node=jobs&max=99999999999999999999"
    b" ?%5b= ?node=jobs&id=%F0%9F ?node=jobs&id=a&action=purge ?wait=1e999 ?max=-0 ?token=%2b ?q=%00 ?sort=none&after=inf:a"
    b" ?hours=x&after=a%20b / // /.. /%2e%2e /%00 /%ff ;a=b #f ?alt=media&pageSize=-1 ?to=//x&note=a&mark=%ff ?pretty".split()
)
BODIES: Final = (
    *(b"", b"{}", b"[]", b"null", b"\xff", b"\0", b"%", b"x" * 1_000, b'"\\ud800"', b"\x1f\x8b\x08\x00"),
    *(b"node=%FF&x=%", b"a=b&c=d", b"a=1&" * 2_000, b"\xff=\xff", b"node=jobs&max=" + b"9" * 5_000, b"to=%00&name=%00"),
    *(b'{"node": 1e400}', b'{"node":' + b"9" * 5_000 + b"}", b'{"max":true,"node":["jobs"]}', b"[" * 5_000),
    *(b'{"name":"/topics/a/b","topic":{}}', b'{"subscription":"/subscriptions/a/b","maxEvents":-1}'),
    *(b'{"topic":"/topics/a/b","message":{"data":"%"}}', b'{"ackIds":["AA"],"ackDeadlineSeconds":1e9}'),
    *(b"done=false&reason=%00", b"acknowledge=%00", b"url=%00", b'{"pubsub#title":"\\u0000","x-queueing#filter":["\\u0000"]}'),
    *(b"<a", b"<?xml version='1.0' encoding='x'?><a/>", b"<feed xmlns='http://www.w3.org/2005/Atom'><entry/></feed>"),
    *(b"--x\r\n\r\n--x--", b'--x\r\nContent-Disposition: form-data; name="to"\r\n\r\n\xff\r\n--x--\r\n', b"--y"),
    *(b"3\r\nabc\r\n0\r\n\r\n", b"-1\r\n", b"fffffffffffffffff\r\n", b"3;\r\nabcd\r\n", b"3\r\nabc"),
)  # fmt: skip
TYPES: Final = (
    *(b"application/json", b"application/x-www-form-urlencoded", b"text/plain"),
    *(b"application/atom+xml", b"application/xml", b"multipart/form-data; boundary=x"),
)
_STATUS: Final = re.compile(rb"HTTP/1\.[01] (\d{3}) ")


class Served:
    """The service: its program and port; and the cookie and the form's token of a login at its page."""

    def __init__(self, program: Program | None, port: int) -> None:
        self.program, self.port = program, port
        self.cookie = self.form = b""
        self.bearers: Sequence[bytes] = (BEARER,)


@asynccontextmanager
async def serving(folder: Path, store: str = "") -> AsyncIterator[Served]:
    """Run a service with all that is served over HTTP on one port; by default its store is in the folder."""
    (port,) = free_ports(1)
    config = folder / "pubqueue.toml"
    config.write_text(f"""
jid = "queue.example"
secret = "s"
server = ""
store = "{store or f"sqlite:///{folder}/queue.db"}"
http = "127.0.0.1:{port}"
[rest]
listen = "127.0.0.1:{port}"
longest_wait = 0.05
[grpc]
json = "127.0.0.1:{port}"
[stomp]
web_socket = "/stomp"
{table("etl", token=TOKEN, roles=["admin"], faces=["rest", "grpc", "stomp", "page"])}""")
    config.chmod(0o600)
    async with Program(config) as program:
        served = Served(program, port)
        await _begin(served)
        yield served


async def _begin(served: Served) -> None:
    """Make the nodes, and log in at the page."""
    root = f"http://127.0.0.1:{served.port}"
    jar = aiohttp.CookieJar(unsafe=True)
    timeout = aiohttp.ClientTimeout(TIMEOUT)
    async with aiohttp.ClientSession(root, cookie_jar=jar, timeout=timeout) as browser:
        bearer = {"Authorization": f"Bearer {TOKEN}"}

        async def is_made(path: str) -> bool:
            async with browser.put(path, headers=bearer) as made:
                assert made.status in {201, 503}, await made.text()
                return made.status == 201  # else REST does not serve yet

        for path in ("/rest/queues/jobs", "/rest/topics/news"):
            await until(partial(is_made, path), every=LOOK)
        async with browser.post(
            "/ui/login", data={"password": TOKEN}, allow_redirects=False
        ) as answer:
            served.cookie = answer.headers["Set-Cookie"].partition(";")[0].encode()
        async with browser.get("/ui/") as page:
            served.form = (
                (await page.text()).split('name="form" value="')[1].partition('"')[0].encode()
            )


PARTS: Final[dict[str, Sequence[tuple[str, str]]]] = {
    "page": [
        *(("GET", path) for path in PAGES),
        *(("POST", f"/ui/{name}") for name in ("do", "logout")),
    ],
    "others": [("GET", path) for path in OTHERS],
    "operations": [
        *((method_of(one), f"/api/operations/{name}") for name, one in OPERATIONS.items()),
        *(("GET", path) for path in ("/api/operations", "/api/openapi.json")),
    ],
    "json": [(method, f"/{VERSION}/{path}") for method, path in ROWS],
    "rest": [(route.method, f"/rest{route.path}") for route in ROUTES],
    "hornetq": [(route.method, f"/hornetq{route.path}") for route in OF_HORNETQ],
}
"""Methods and paths of each part."""


def targets(random: Random, parts: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield methods and paths without end: those that are there, and some with another method."""
    while True:
        method, path = random.choice(PARTS[random.choice(parts)])
        path = path.replace("{node}", random.choice(("jobs", "news")))
        path = re.sub(r"\{[^}]*\}", lambda _: random.choice(SEGMENTS), path)
        yield method if random.random() < 0.9 else random.choice(METHODS), path


def requests(
    random: Random, served: Served, parts: Sequence[str] = tuple(PARTS)
) -> Iterator[bytes]:
    """Yield requests of these parts without end."""
    for method, path in targets(random, parts):
        query = random.choice(QUERIES) if random.random() < 0.3 else b""
        body = random.choice(BODIES) if random.random() < 0.6 else b""
        if path.startswith("/ui") and random.random() < 0.8:
            body = b"form=" + served.form + b"&" + body
        odd = [(random.choice(NAMES), random.choice(VALUES)) for _ in range(random.choice(ODD))]
        lines = [*_usual(random, served, path, body, {name for name, _ in odd}), *odd]
        head = b"".join(b"%s: %s\r\n" % line for line in lines)
        target = path.encode() + query, random.random() < 0.95
        yield b"%s %s HTTP/1.%d\r\n%s\r\n%s" % (method.encode(), *target, head, body)


def _usual(
    random: Random, served: Served, path: str, body: bytes, odd: Container[bytes]
) -> Iterator[tuple[bytes, bytes]]:
    """Yield the headers that a request needs, without most of those that it has already."""
    on_page = path.startswith("/ui")
    kind = random.choice(TYPES)
    lines = {
        b"Host": b"127.0.0.1:%d" % served.port,
        b"Connection": b"close",
        b"Content-Type": FORM.encode() if on_page and random.random() < 0.8 else kind,
    }
    if on_page and random.random() < 0.05:
        lines[b"Cookie"] = b":".join([*served.cookie.split(b":")[:3], random.choice(VALUES), b"a"])
    elif random.random() < 0.95:
        lines |= (
            {b"Cookie": served.cookie}
            if on_page
            else {b"Authorization": random.choice(served.bearers)}
        )
    for name, value in lines.items():
        if name not in odd or random.random() < 0.1:
            yield name, value
    if b"Content-Length" not in odd and b"Transfer-Encoding" not in odd:
        yield b"Content-Length", b"%d" % len(body)


async def ask(port: int, request: bytes) -> int:
    """Send a request on a connection of its own; return the status of the first answer, 0 if there is none."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        async with asyncio.timeout(ANSWER_TIMEOUT):
            found = _STATUS.match(await reader.readline())
        return int(found[1]) if found else 0
    except (TimeoutError, ConnectionError):
        return 0
    finally:
        writer.close()


def logins(served: Served) -> Iterator[bytes]:
    """Yield a request with each of the odd credentials to each part."""
    for path in (
        b"/api/operations",
        b"/rest/queues/jobs",
        b"/%s/topics" % VERSION.encode(),
        b"/metrics",
    ):
        for value in CREDENTIALS:
            yield (
                b"GET %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: close\r\nAuthorization: %s\r\n\r\n"
                % (path, served.port, value)
            )


async def send_all(served: Served, requests: Iterable[bytes]) -> Counter[int]:
    """Send these requests; return how often each status came.

    Raises:
        FaultError: one has met a fault.

    """
    statuses: Counter[int] = Counter()
    left = iter(requests)
    while some := list(islice(left, AT_ONCE)):
        found = await asyncio.gather(*(ask(served.port, request) for request in some))
        statuses.update(found)
        if served.program is not None and (lines := faults(served.program)):
            raise FaultError("\n".join((lines[0], "after one of:", *map(repr, some))))
        for request, status in zip(some, found, strict=True):
            if status >= 500 and status not in UNABLE:
                raise FaultError(f"status {status} for {request!r}")
    return statuses


@click.command(context_settings={"show_default": True})
@click.option("--requests", "count", default=50_000, type=click.IntRange(1))
@click.option("--seed", default=1, help="The requests follow from it.")
def main(*, count: int, seed: int) -> None:
    """Send random requests; stop at the first that meets a fault."""

    async def run(folder: Path) -> Counter[str]:
        async with serving(folder) as served:
            statuses = await send_all(served, islice(requests(Random(seed), served), count))
            statuses += await send_all(served, logins(served))
        return Counter({f"{one or 'without an answer'}": times for one, times in statuses.items()})

    print_outcome(run, f"{count:,} requests", seed)


if __name__ == "__main__":
    main()
