"""Accepts HTTP connections within limits, bounds the time of requests, and passes them to independent parts.

aiohttp limits neither the number of connections nor the time for the head, the body or the answer of a request. The listener
limits connections and unread data; this module limits the time to receive a request and to answer it.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, Protocol

from aiohttp import web, web_response, web_urldispatcher

from pubqueue.engine.connections import Reason
from pubqueue.engine.observe import Traffic
from pubqueue.faces.http import bodies
from pubqueue.faces.http.malformed import logger
from pubqueue.faces.listener import Bounds, ClientConnection, Listener

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

    from pubqueue.faces.listener import Place

    Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

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
    if not await bodies.meets_expectation(request):
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
