"""Accepts HTTP connections within limits, and passes requests with bodies and credentials to the parts of the service."""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
import time
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import urlsplit

import structlog
from aiohttp import HttpVersion11, web, web_response, web_urldispatcher
from aiohttp.http_exceptions import HttpProcessingError

from pubqueue.accounts.credentials import Bearer, Plain
from pubqueue.engine.connections import Reason
from pubqueue.engine.observe import Traffic
from pubqueue.faces.checks import address_of, is_trusted
from pubqueue.faces.listener import Bounds, ClientConnection, Listener
from pubqueue.logs import fault

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
    from urllib.parse import SplitResult

    from pubqueue.faces.checks import Networks
    from pubqueue.faces.listener import Place

    Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


# Accepts HTTP connections within limits, bounds the time of requests, and passes them to independent parts.
#
# aiohttp limits neither the number of connections nor the time for the head, the body or the answer of a request. The listener
# limits connections and unread data; this module limits the time to receive a request and to answer it.

BOUNDS: Final = Bounds(connections=1_000, per_peer=100, login=0, unread=60.0)
"""Connections in total and from one address, and the seconds in which a client has to read an answer."""

REQUEST: Final = 30.0
"""Seconds to receive the head of a request, from the start of its connection; also seconds for its body and the answer."""

IDLE: Final = 60.0
"""Seconds for which an idle connection stays open, until its next request is complete."""

LINGERING: Final = 0.5
"""Seconds for which the rest of a body that was refused is read and dropped, so that the client can read the answer."""

CLOSING: Final = 1.0
"""Seconds for open connections to end when the host stops."""

MAX_BODY_BYTES: Final = 256 * 1024
"""The maximum bytes of a body, unless a part has another limit: ids of items are long."""

NAME: Final = "pubqueue"
"""The value of the header `Server`, without versions, which clients need not know."""

BUSY: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nServer: pubqueue\r\nRetry-After: 5\r\nConnection: close\r\n"
    b"Content-Type: text/plain\r\nContent-Length: 22\r\n\r\ntoo many connections.\n"
)

web_response.SERVER_SOFTWARE = NAME  # type: ignore[attr-defined]  # answers to malformed requests run no hook


async def _expect(request: web.Request) -> None:
    if not await meets_expectation(request):
        raise web.HTTPExpectationFailed(text="The expectation is not known.\n")


web_urldispatcher._default_expect_handler = _expect  # noqa: SLF001  # its own puts the header into the answer, and fails if that is not UTF-8

_connection: ContextVar[ClientConnection] = ContextVar("connection")
"""The connection of the current request: aiohttp runs a connection's task in the context in which it was created."""

_limit: ContextVar[asyncio.Timeout] = ContextVar("limit")
"""The timeout of the current request."""


def connection() -> ClientConnection:
    """Return the connection of the current request."""
    return _connection.get()


def allow(seconds: float | None) -> None:
    """Set the timeout of the current request, in seconds from now; None for no limit."""
    when = None if seconds is None else asyncio.get_running_loop().time() + seconds
    _limit.get().reschedule(when)


class Part(Protocol):
    """A group of routes that the host serves."""

    def add_to(self, app: web.Application) -> None:
        """Add the routes. No two parts may have the same one."""


class HttpHost:
    """Serves parts. A request may take `request` seconds, its head `head`, and a connection without a request closes after `idle`.

    `word` names the host in metrics. `clock` returns seconds and is monotonic.
    """

    def __init__(
        self,
        parts: Iterable[Part] = (),
        bounds: Bounds = BOUNDS,
        *,
        request: float = REQUEST,
        head: float | None = None,
        idle: float = IDLE,
        word: str = "http",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._parts = list(parts)
        self._request, self._idle = request, idle
        self._head = request if head is None else head
        self._runner: web.AppRunner | None = None
        self.listener = Listener(word, self._make, bounds, busy=BUSY, clock=clock)
        self.traffic = Traffic(connections=self.listener.counts)

    def mount(self, part: Part) -> None:
        """Add a part. Call this before `serving`."""
        self._parts.append(part)

    @asynccontextmanager
    async def serving(self, places: Iterable[Place]) -> AsyncIterator[list[tuple[str, int]]]:
        """Serve at these places within the context; yield host and port of each, with the chosen port for port 0.

        Raises:
            CannotListenError: a place is taken, or not on this machine.

        """
        app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[self._timed])
        for part in self._parts:
            part.add_to(app)
        runner = web.AppRunner(
            app,
            access_log=None,
            logger=logger(),
            lingering_time=LINGERING,
            shutdown_timeout=CLOSING,
            keepalive_timeout=self._idle,
            handler_cancellation=True,  # a client that has disconnected needs no answer
            auto_decompress=False,  # bodies stay compressed, so no decompression bomb is unpacked
        )
        await runner.setup()
        self._runner = runner
        try:
            await self.listener.open(places)
            yield self.listener.addresses
        finally:
            self.listener.close()
            await runner.cleanup()
            await self.listener.stop(CLOSING)

    async def reload(self) -> None:
        """Reload the certificates. Open connections keep theirs."""
        await self.listener.reload()

    def _make(self, connection: ClientConnection) -> asyncio.Protocol:
        assert self._runner is not None
        assert self._runner.server is not None
        _connection.set(connection)
        connection.expect(self._head, Reason.REQUEST)
        return self._runner.server()

    @web.middleware
    async def _timed(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Run the handler within the timeout; after it, answer that the client sends too slowly or the service answers too slowly."""
        connection = _connection.get()
        connection.expect(None)
        try:
            async with asyncio.timeout(self._request) as limit:
                _limit.set(limit)
                return await handler(request)
        except TimeoutError:
            if not limit.expired():
                raise
            if request.content.is_eof():
                raise web.HTTPServiceUnavailable(
                    text="This takes too long.\n", headers={"Retry-After": "5"}
                ) from None
            raise web.HTTPRequestTimeout(
                text="The body took too long.\n", headers={"Connection": "close"}
            ) from None
        finally:
            unread = self.listener.bounds.unread
            connection.expect(unread + self._idle, Reason.REQUEST)


# Reads the bodies of requests, within limits of size and time.


class BodyError(Exception):
    """The body is not accepted. The connection ends after an answer with this `status`."""

    def __init__(self, status: int) -> None:
        super().__init__(f"{status}")
        self.status = status


async def read(request: web.Request, limit: int, seconds: float) -> bytes:
    """Return the body.

    Raises:
        BodyError: it is too large (413), takes too long (408), or cannot be decoded (400).

    """
    if request.content_length is not None and request.content_length > limit:
        raise BodyError(413)
    if not request.can_read_body:
        return b""
    try:
        if request.content.is_eof():  # it has come with the head, as small ones do
            return _within(request.content.read_nowait(), limit)
        async with asyncio.timeout(seconds):
            return await _read_on(request, limit)
    except TimeoutError:
        raise BodyError(408) from None
    except (HttpProcessingError, web.RequestPayloadError, ValueError, LookupError):
        raise BodyError(400) from None


async def _read_on(request: web.Request, limit: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while part := await request.content.readany():
        size += len(part)
        if size > limit:
            raise BodyError(413)
        parts.append(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _within(body: bytes, limit: int) -> bytes:
    if len(body) > limit:
        raise BodyError(413)
    return body


async def meets_expectation(request: web.Request) -> bool:
    """Send `100 Continue` if the client waits for that before it sends the body; return False if it expects something else (RFC 9110 10.1.1)."""
    if request.version < HttpVersion11:
        return True  # 1.0 has no expectations
    if request.headers.get("Expect", "").lower() != "100-continue":
        return False
    await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    request.writer.output_size = 0  # no part of the answer has been sent
    return True


# Credentials of a request: Basic (RFC 7617, in UTF-8) or Bearer (RFC 6750).

CHALLENGES: Final = ('Basic realm="pubqueue", charset="UTF-8"', 'Bearer realm="pubqueue"')
"""The values of `WWW-Authenticate` in a 401 answer, one field for each."""


def credentials_of(fields: Sequence[str]) -> Plain | Bearer | None:
    """Return the credentials of a request, or None unless it has exactly one `Authorization` field and that is valid."""
    if len(fields) != 1:
        return None
    scheme, _, value = fields[0].strip().partition(" ")
    value = value.strip()
    match scheme.lower():
        case "bearer" if value:
            return Bearer(value)
        case "basic":
            return _basic(value)
        case _:
            return None


def _basic(value: str) -> Plain | None:
    try:
        text = base64.b64decode(value, validate=True).decode()
    except (binascii.Error, ValueError):
        return None
    name, colon, password = text.partition(":")
    return Plain(name, password) if colon else None


# Replaces aiohttp's log lines about malformed requests, which contain a traceback and the bytes of the request, secrets included.

log = structlog.get_logger(__name__)

LINES: Final = 10
"""Log lines per minute about malformed requests; the next line has the number of those that were dropped."""

MINUTE: Final = 60.0


class Malformed(logging.Filter):
    """Replaces each line by one without bytes. `clock` returns seconds and is monotonic."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._begun, self._lines, self._passed_over = clock(), 0, 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Log our own event, and drop the line. A client that has disconnected is not logged."""
        problem = record.exc_info[1] if record.exc_info else None
        if isinstance(problem, HttpProcessingError):
            self._malformed(type(problem).__name__)
        elif isinstance(problem, Exception) and not isinstance(problem, ConnectionResetError):
            log.error("request.failed", face="http", **fault(problem))
        return False

    def _malformed(self, why: str) -> None:
        now = self._clock()
        if now - self._begun >= MINUTE:
            self._begun, self._lines = now, 0
        if self._lines >= LINES:
            self._passed_over += 1
            return
        self._lines += 1
        log.info("request.malformed", why=why, passed_over=self._passed_over)
        self._passed_over = 0


def logger() -> logging.Logger:
    """Return the logger for a host."""
    made = logging.getLogger(f"{__name__}.server")
    if not made.filters:
        made.addFilter(Malformed())
    return made


# Finds the client of a connection: loopback addresses and proxies may report it.


def client_of(peer: str, headers: Mapping[str, str], proxies: Networks) -> str:
    """Return the address of the client. If a proxy is the peer, this is the last one of `X-Forwarded-For`, which the proxy has added."""
    if not is_trusted(peer, proxies, loopback=False):
        return peer
    claimed = headers.get("X-Forwarded-For", "").rpartition(",")[2].strip()
    return peer if address_of(claimed) is None else claimed


# URLs that clients send.


def split(url: str) -> SplitResult | None:
    """Return the parts of a URL; None if it cannot be read, because its host or port is invalid."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises ValueError too
    except ValueError:
        return None
    return parts
