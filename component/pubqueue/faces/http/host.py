"""Accepts HTTP connections within limits, and passes requests with bodies and credentials to the parts of the service."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from io import BytesIO
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol, cast
from urllib.parse import urlsplit

import structlog
from aiohttp import HttpVersion11, web, web_protocol, web_response, web_urldispatcher
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.payload import BytesIOPayload
from aiohttp.streams import EMPTY_PAYLOAD

from pubqueue.engine.connections import Reason
from pubqueue.engine.observe import Traffic
from pubqueue.faces.checks import address_of, is_trusted
from pubqueue.faces.http.problems import (
    MEDIA_TYPE,
    NAME,
    ProblemError,
    close,
    last_answer,
    not_found,
    of_status,
)
from pubqueue.faces.listener import Bounds, ClientConnection, Listener
from pubqueue.faces.listener.budget import KEPT, STRANGERS
from pubqueue.faces.listener.connection import HIGH, network_of
from pubqueue.logs import fault

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
    from urllib.parse import SplitResult

    from aiohttp import StreamReader
    from multidict import MultiMapping

    from pubqueue.faces.checks import Networks
    from pubqueue.faces.listener import Place
    from pubqueue.faces.listener.budget import Budget

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

MAX_HEAD_BYTES: Final = 64 * 1024
"""The maximum bytes of the head of a request, all its fields together."""

PIECE: Final = 16 * 1024
"""Bytes of a WebSocket that are read before they are judged, and bytes that may wait to be sent and are not counted."""

MAX_BODY_BYTES: Final = 256 * 1024
"""The maximum bytes of a body, unless a part has another limit: ids of items are long."""

BUSY: Final = last_answer(503, b"too many connections.\n", "text/plain")

web_response.SERVER_SOFTWARE = NAME  # type: ignore[attr-defined]  # answers to malformed requests run no hook
web_protocol.MAX_MSG_QUEUE_SIZE = 2  # requests that are read before it is their turn


async def _closed(_request: web.Request, response: web.StreamResponse) -> None:
    close(response)
    if isinstance(response, web.Response) and isinstance(body := response.body, bytes):
        _handler.get().answers(len(body))
        if len(body) > HIGH:  # in pieces: as a whole it would be copied into the transport
            response.body = BytesIOPayload(BytesIO(body))


class _Handler(web_protocol.RequestHandler):
    """Counts the bytes of a connection that are kept, of its requests and answers, in the budget of the process.

    They are a stranger's until a part knows the account of the request. Malformed requests and faults are answered with a
    problem document, which has nothing of the request.
    """

    __slots__ = (
        *("_answer_bytes", "_head_bytes", "_is_dropping", "_kept", "_last_bytes", "_newest"),
        *("_owner", "_unsent", "client", "head_size", "on_bytes", "parts"),
    )

    def __init__(self, *given: Any, **named: Any) -> None:  # noqa: ANN401  # aiohttp's
        super().__init__(*given, **named)
        self.client = _connection.get()
        self.client.on_given_up = self._give_up
        self.head_size = 0
        """Bytes of the head of the current request."""
        self.on_bytes: Callable[[int], bool] | None = None
        """Counts the bytes that come over a WebSocket; returns whether more are wanted."""
        self.parts: list[bytes] = []
        """What has come of the body that is being read."""
        self._owner = STRANGERS
        self._newest: StreamReader = EMPTY_PAYLOAD
        """The body of the request that has begun last."""
        self._is_dropping = False
        """Whether the rest of a body comes whose request was answered."""
        self._kept = self._last_bytes = self._head_bytes = self._answer_bytes = self._unsent = 0
        _handler.set(self)

    def data_received(self, data: bytes) -> None:
        """Count bytes before they are read: those of heads and bodies, until their request is answered."""
        if self.on_bytes is not None:
            for start in range(0, len(data), PIECE):
                super().data_received(piece := data[start : start + PIECE])
                if not self.on_bytes(len(piece)):
                    self._close = True  # nothing more is read
            return
        is_head = self._newest.is_eof()
        if data and not (self._close or self._is_dropping):
            self._last_bytes = len(data)
            self._kept += len(data)
            self._note()
        before = self._request_count
        super().data_received(data)
        if self._request_count != before:
            self._newest, self._head_bytes = self._messages[-1][1], 0
            self._is_dropping = False
        elif is_head and not (self._close or self._upgraded or self._buffer_paused):
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self._end(head_too_large())

    def known(self, account: str) -> None:
        """Count what is kept of the current request for its account."""
        self._owner = account
        self._note()

    def answers(self, size: int) -> None:
        """Count a body, or the part of one, that is sent now instead of the one before, until the client has read most of it."""
        self._kept += size - self._answer_bytes
        self._answer_bytes = size
        self._note()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Have it count what waits to be sent before it is much: there may be thousands of clients that read nothing."""
        super().connection_made(transport)
        cast("asyncio.Transport", transport).set_write_buffer_limits(high=PIECE)

    def pause_writing(self) -> None:
        """Count what waits to be sent."""
        super().pause_writing()
        self._unsent = self.client.unsent
        self._note()

    def resume_writing(self) -> None:
        """Count it no more."""
        super().resume_writing()
        self._unsent = 0
        self._note()

    def _note(self, *, is_new: bool = False) -> None:
        if self.on_bytes is None:
            self.client.keeps(self._kept + self._unsent, self._owner, is_new=is_new)

    async def _handle_request(
        self,
        request: web.BaseRequest,
        *given: Any,  # noqa: ANN401  # aiohttp's
    ) -> tuple[web.StreamResponse, bool]:
        fields = sum(map(len, chain(*request.raw_headers))) + 4 * len(request.raw_headers)
        self.head_size = len(request.method) + len(request.raw_path) + 14 + fields
        try:
            return await super()._handle_request(request, *given)
        finally:
            self._owner = STRANGERS
            over = self.head_size + request.content.total_bytes + self._answer_bytes
            self._kept, self._answer_bytes = max(self._kept - over, 0), 0
            if not self._messages:  # of bodies in chunks there is more than was read
                self._kept = min(self._kept, self._last_bytes)
            self._is_dropping = not request.content.is_eof()
            self._note(is_new=True)

    def _give_up(self) -> None:
        """Say that the client may try again, unless an answer has begun."""
        now = self._current_request
        has_begun = self._request_in_progress and (now is None or now.writer.output_size > 0)
        if has_begun or self._upgraded:
            self.client.abort()
            self._drop()
        else:
            self._end(of_status(503, "too much is kept for clients; this may have been done"))

    def _end(self, problem: ProblemError) -> None:
        """End with an answer, which the client has some time to read, and drop all that is kept and all that still comes."""
        self._close = True
        self._messages.clear()
        self._parser = None
        self.parts.clear()  # now, and not with the next turn of the loop: many come in one
        if self._newest is not EMPTY_PAYLOAD:
            self._newest._buffer.clear()  # noqa: SLF001  # likewise
        self._kept = 0
        self.client.keeps(0)
        self.client.resume_reading()
        self.client.write(last_answer(problem.status, problem.document, MEDIA_TYPE))
        self.client.end_sending()
        self._drop()
        self._loop.call_later(LINGERING, self.client.abort)

    def _drop(self) -> None:
        """Have the handler forget what it keeps, before the end of the connection is passed on."""
        if self._task_handler is not None:
            self._task_handler.cancel()
            self._task_handler = None  # its exception has all that its frames have

    def force_close(self) -> None:
        """Close at once, unless the last answer is being read."""
        if self._parser is not None or self.transport is None:
            super().force_close()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        super().handle_error(request, status, exc, message)  # logs it
        response = of_status(status).response()
        response.force_close()
        close(response)
        return response


async def _expect(request: web.Request) -> web.StreamResponse | None:
    if await meets_expectation(request):
        return None
    return of_status(417, "the expectation is not known").response()


web_urldispatcher._default_expect_handler = _expect  # type: ignore[assignment]  # noqa: SLF001  # its own puts the header into the answer, and fails if that is not UTF-8


def head_too_large() -> ProblemError:
    """Return the problem of a head with too many bytes."""
    detail = f"the head of a request has up to {MAX_HEAD_BYTES} bytes"
    return ProblemError(431, "headers-too-large", detail, close=True, limit=MAX_HEAD_BYTES)


_connection: ContextVar[ClientConnection] = ContextVar("connection")
"""The connection of the current request: aiohttp runs a connection's task in the context in which it was created."""

_handler: ContextVar[_Handler] = ContextVar("handler")
"""Reads the current request, and sends its answer."""

_limit: ContextVar[asyncio.Timeout] = ContextVar("limit")
"""The timeout of the current request."""


_client: ContextVar[str] = ContextVar("client")
"""The address of the client of the current request."""


def connection() -> ClientConnection:
    """Return the connection of the current request. Its peer may be a proxy."""
    return _connection.get()


def client() -> str:
    """Return the address of the client of the current request: the peer, or what a trusted proxy names."""
    return _client.get()


def known(account: str) -> None:
    """Note whose the current request is. Until then its bytes are those of strangers."""
    _handler.get().known(account)


async def expect(size: int) -> None:
    """Count so many bytes of which an answer is made, before it is: what others give up for them is forgotten then."""
    _handler.get().answers(size)
    if size > HIGH:
        await asyncio.sleep(0)


async def send(stream: web.StreamResponse, data: bytes) -> None:
    """Send a part of the answer to the current request, which counts until the client has read most of it.

    Raises:
        ConnectionError: the client has gone.

    """
    await send_pieces(stream, (data[at : at + HIGH] for at in range(0, len(data), HIGH)), len(data))


async def send_pieces(stream: web.StreamResponse, pieces: Iterable[bytes], size: int) -> None:
    """Send a part of the answer of which each piece is made when the client has read those before it; `size` bytes are kept for it.

    Raises:
        ConnectionError: the client has gone.

    """
    handler = _handler.get()
    handler.answers(size)
    for piece in pieces:
        await stream.write(piece)
        if size > HIGH:
            await asyncio.sleep(0)  # others have their turn between two pieces
    handler.answers(0)


def watch(on_bytes: Callable[[int], bool]) -> None:
    """Have the bytes counted that come over the WebSocket of the current request; it returns whether more are wanted."""
    _handler.get().on_bytes = on_bytes


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

    `word` names the host in metrics. `proxies` returns the networks of proxies that are trusted to name their clients; `per_peer`
    is for each of these clients, and not for the proxy. `clock` returns seconds and is monotonic. `budget` bounds what is
    kept of requests and answers; it is that of the process.
    """

    def __init__(
        self,
        parts: Iterable[Part] = (),
        bounds: Bounds = BOUNDS,
        *,
        proxies: Callable[[], Networks] = tuple,
        request: float = REQUEST,
        head: float | None = None,
        idle: float = IDLE,
        word: str = "http",
        clock: Callable[[], float] = time.monotonic,
        budget: Budget = KEPT,
    ) -> None:
        self._parts = list(parts)
        self._proxies = [proxies]
        self._busy: Counter[str] = Counter()
        self._request, self._idle = request, idle
        self._head = request if head is None else head
        self._runner: web.AppRunner | None = None
        self.listener = Listener(
            word,
            self._make,
            bounds,
            busy=BUSY,
            is_shared=self._is_proxy,
            clock=clock,
            budget=budget,
        )
        self.traffic = Traffic(connections=self.listener.counts)

    def mount(self, part: Part, proxies: Callable[[], Networks] = tuple) -> None:
        """Add a part, and the proxies that it trusts. Call this before `serving`."""
        self._parts.append(part)
        self._proxies.append(proxies)

    @asynccontextmanager
    async def serving(self, places: Iterable[Place]) -> AsyncIterator[list[tuple[str, int]]]:
        """Serve at these places within the context; yield host and port of each, with the chosen port for port 0.

        Raises:
            CannotListenError: a place is taken, or not on this machine.

        """
        app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[self._timed])
        app.on_response_prepare.append(_closed)
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
        server = self._runner.server
        kept: Any = server._kwargs  # noqa: SLF001  # there is no other way to choose the class
        return _Handler(server, loop=asyncio.get_running_loop(), **kept)

    @web.middleware
    async def _timed(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Run the handler within the timeout; after it, answer that the client sends too slowly or the service answers too slowly."""
        connection = _connection.get()
        connection.expect(None)
        try:
            async with asyncio.timeout(self._request) as limit:
                _limit.set(limit)
                return await self._answer(request, handler)
        except TimeoutError:
            if not limit.expired():
                raise
            if request.content.is_eof():
                return of_status(503, "this takes too long", AGAIN).response()
            return ProblemError(408, "too-slow", "the body took too long", close=True).response()
        finally:
            unread = self.listener.bounds.unread
            connection.expect(unread + self._idle, Reason.REQUEST)

    async def _answer(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Run the handler for a client that has not too much under way; what aiohttp refuses is a problem document."""
        peer, proxies = _connection.get().peer, self._trusted()
        is_proxy = bool(proxies) and is_trusted(peer, proxies, loopback=False)
        client = client_of(peer, request.headers, proxies) if is_proxy else peer
        _client.set(client)
        try:
            if _handler.get().head_size > MAX_HEAD_BYTES:
                raise head_too_large()
            if not is_proxy:
                return await handler(request)
            with self._under_way(client):
                return await handler(request)
        except ProblemError as problem:
            return problem.response()
        except web.HTTPNotFound:
            return not_found().response()
        except web.HTTPError as problem:
            kept = [one for one in problem.headers.items() if one[0] in STAYING]
            return of_status(problem.status, "", kept).response()

    @contextmanager
    def _under_way(self, client: str) -> Iterator[None]:
        """Count a request of a client behind a proxy, which may have as many under way as others have connections."""
        key = network_of(client)
        if self._busy[key] >= self.listener.bounds.per_peer:
            self.listener.refused(Reason.PEER, peer=client)
            raise of_status(503, "too many requests of this address are under way", AGAIN)
        self._busy[key] += 1
        try:
            yield
        finally:
            self._busy[key] -= 1
            if not self._busy[key]:
                del self._busy[key]

    def _trusted(self) -> Networks:
        return [network for proxies in self._proxies for network in proxies()]

    def _is_proxy(self, peer: str) -> bool:
        return is_trusted(peer, self._trusted(), loopback=False)


STAYING: Final = ("Allow", "Retry-After")
"""Headers of a refusal of aiohttp that stay."""

AGAIN: Final = (("Retry-After", "5"),)


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
    if request.content.is_eof():  # it has come with the head, as small ones do
        with _decoding():
            body = request.content.read_nowait()
        return _within(body, limit)
    try:
        async with asyncio.timeout(seconds):
            return await _read_on(request, limit)
    except TimeoutError:
        raise BodyError(408) from None


@contextmanager
def _decoding() -> Iterator[None]:
    """Turn what the libraries raise of a body that cannot be decoded into one error; nothing of ours is called in it."""
    try:
        yield
    except (HttpProcessingError, web.RequestPayloadError, ValueError, LookupError):
        raise BodyError(400) from None


MANY: Final = 1_000
"""Parts of a body that are collected before they are joined."""


async def _read_on(request: web.Request, limit: int) -> bytes:
    parts = _handler.get().parts = []
    size = 0
    while not request.content.at_eof():
        with _decoding():
            parts.append(await request.content.readany())
        size += len(parts[-1])
        if size > limit:
            raise BodyError(413)
        if len(parts) > MANY:  # small ones need more memory than their bytes
            parts[:] = [b"".join(parts)]
    body = parts[0] if len(parts) == 1 else b"".join(parts)
    parts.clear()
    return body


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


# What a request without credentials is answered.

CHALLENGES: Final = ('Basic realm="pubqueue", charset="UTF-8"', 'Bearer realm="pubqueue"')
"""The values of `WWW-Authenticate` in a 401 answer, one field for each."""


def check_one_authorization(request: web.Request) -> None:
    """Refuse a request with several fields `Authorization`, where none is read: a proxy may have read another one.

    Raises:
        ProblemError: it has.

    """
    if len(request.headers.getall("Authorization", ())) > 1:
        raise unauthorized("the request has several fields Authorization")


def unauthorized(detail: str) -> ProblemError:
    """Return the problem of a request without the credentials of a user."""
    headers = [("WWW-Authenticate", challenge) for challenge in CHALLENGES]
    return ProblemError(401, "unauthorized", detail, headers=headers)


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


# Finds the client of a connection: a proxy that is trusted names it.


def client_of(peer: str, headers: MultiMapping[str], proxies: Networks) -> str:
    """Return the address of the client. If a proxy is the peer, this is the last one of `X-Forwarded-For`, which the proxy has added."""
    if not is_trusted(peer, proxies, loopback=False):
        return peer
    claimed = last_of("X-Forwarded-For", headers)
    return peer if address_of(claimed) is None else claimed


def last_of(name: str, headers: MultiMapping[str], default: str = "") -> str:
    """Return the last value in the fields of this name, which the next proxy has added, if need be as a field of its own."""
    fields = headers.getall(name, ())
    return fields[-1].rpartition(",")[2].strip() if fields else default


# URLs that clients send.


def split(url: str) -> SplitResult | None:
    """Return the parts of a URL; None if it cannot be read, because its host or port is invalid."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises ValueError too
    except ValueError:
        return None
    return parts


PORTS: Final[Mapping[str, str]] = MappingProxyType(
    {"http": ":80", "ws": ":80", "https": ":443", "wss": ":443"}
)
"""The schemes of an origin, with the port that need not be written."""


def is_same_origin(origin: str, host: str) -> bool:
    """Return whether the field `Origin` names the host and the port of the field `Host`, so that no other site is meant.

    Its scheme does not matter: libraries for WebSocket send the address that they call, as `ws:`, `wss:` or `http:`.
    """
    scheme, colon, rest = origin.lower().partition("://")
    port = PORTS.get(scheme)
    if port is None or not colon or not host or split(origin) is None:
        return False
    return host.lower() in {rest, rest.removesuffix(port), f"{rest}{port}"}
