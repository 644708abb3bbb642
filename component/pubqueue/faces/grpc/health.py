"""What callers without an account may ask: whether the services serve (grpc.health.v1), and what they are (grpc.reflection.v1alpha).

Their requests are small, their calls few, and all but one that watches end soon.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import aclosing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import grpc
from grpc import StatusCode
from grpc_health.v1.health_pb2 import DESCRIPTOR as HEALTH
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_reflection.v1alpha import reflection
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest

from pubqueue.faces.grpc import wire
from pubqueue.faces.grpc.callers import Unread
from pubqueue.faces.grpc.server import MISSING, fail, whole
from pubqueue.faces.grpc.statuses import CallError, invalid
from pubqueue.faces.listener.budget import STRANGERS
from pubqueue.faces.listener.connection import network_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator

    from google.protobuf.message import Message

    from pubqueue.faces.grpc.front import Stream

    Context = grpc.aio.ServicerContext[Any, Any]
    Answers = Callable[[AsyncIterator[Any]], AsyncGenerator[Any, None]]

MAX_REQUEST: Final = 4 << 10
"""Bytes of a request."""

MAX_UNPACKED: Final = 128 << 10
"""Bytes that a request may have when it is read, if it is compressed."""

MAX_CALLS: Final = 1_000
MAX_CALLS_OF_ADDRESS: Final = 500
MAX_CALLS_OF_CONNECTION: Final = 20
"""Calls that may be open in all, from one address, and on one connection. Many clients watch, each on a connection of its own."""

TIMEOUT: Final = 10.0
"""Seconds until a request has come, and a call of `Check` has ended."""

REFLECTION_TIMEOUT: Final = 60.0
"""Seconds that a call of reflection may last."""

TOO_LARGE: Final = CallError(
    StatusCode.RESOURCE_EXHAUSTED, f"A request of this rpc has at most {MAX_REQUEST} bytes."
)
TOO_MANY: Final = CallError(
    StatusCode.RESOURCE_EXHAUSTED,
    f"There may be {MAX_CALLS} calls of health and reflection, {MAX_CALLS_OF_ADDRESS} from one address, and {MAX_CALLS_OF_CONNECTION} on"
    " one connection.",
)
TOO_LONG: Final = CallError(StatusCode.DEADLINE_EXCEEDED, "The call has lasted too long.")


class Health:
    """Answers for these services. `stream_of` returns the stream of a call."""

    def __init__(self, services: tuple[str, ...], stream_of: Callable[[Context], Stream]) -> None:
        self._services, self._stream_of = services, stream_of
        self.open: Counter[str] = Counter()
        """Calls by the networks of their addresses."""
        self.watches: set[asyncio.Event] = set()
        """What wakes each call of `Watch`."""
        self.serves = False

    def add_to(self, server: grpc.aio.Server) -> None:
        """Serve it there."""
        own = HEALTH.services_by_name["Health"].full_name
        names = (*self._services, own, reflection.SERVICE_NAME)
        reflected = reflection.aio.ReflectionServicer(names, pool=wire.POOL)

        def reflect(requests: AsyncIterator[Any]) -> AsyncGenerator[Any, None]:
            answers: AsyncGenerator[Any, None] = reflected.ServerReflectionInfo(requests, None)
            return answers

        check, watch = self._row(self._check, HealthCheckRequest, TIMEOUT), self._watch
        health = {"Check": check, "Watch": self._row(watch, HealthCheckRequest, None)}
        asked = {
            "ServerReflectionInfo": self._row(reflect, ServerReflectionRequest, REFLECTION_TIMEOUT)
        }
        for name, rows in ((own, health), (reflection.SERVICE_NAME, asked)):
            server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, rows),))

    def set(self, *, serves: bool) -> None:
        """Report that all services serve, or that none does."""
        self.serves = serves
        for one in self.watches:
            one.set()

    def _status(self, service: str) -> HealthCheckResponse | None:
        if service and service not in self._services:
            return None
        state = HealthCheckResponse.SERVING if self.serves else HealthCheckResponse.NOT_SERVING
        return HealthCheckResponse(status=state)

    async def _check(self, requests: AsyncIterator[Any]) -> AsyncGenerator[Message, None]:
        if (status := self._status((await _first(requests)).service)) is None:
            raise CallError(StatusCode.NOT_FOUND, "The service is not known.")
        yield status

    async def _watch(self, requests: AsyncIterator[Any]) -> AsyncGenerator[Message, None]:
        unknown = HealthCheckResponse(status=HealthCheckResponse.SERVICE_UNKNOWN)
        try:
            async with asyncio.timeout(TIMEOUT):
                first = await _first(requests)
        except TimeoutError:
            raise TOO_LONG from None
        service, last = first.service, None
        changed = asyncio.Event()
        self.watches.add(changed)
        try:
            while True:
                changed.clear()
                if (status := self._status(service) or unknown) != last:
                    last = status
                    yield status
                await changed.wait()
        finally:
            self.watches.discard(changed)

    # --- bounds ---------------------------------------------------------------------------------------

    def _row(
        self, answers: Answers, request: type[Message], longest: float | None
    ) -> grpc.RpcMethodHandler[Any, Any]:
        """Return the handler of an rpc; on the wire, an answer that is a stream of one is as any other."""

        async def handle(_requests: object, context: Context) -> None:
            limit = asyncio.timeout(longest)
            try:
                with self._counted(self._stream_of(context)) as stream:
                    async with (
                        limit,
                        aclosing(answers(_requests_of(context, stream))) as found,
                    ):
                        async for one in found:
                            await context.write(one)
            except CallError as problem:
                await fail(context, problem)
            except TimeoutError:
                if not limit.expired():
                    raise
                await fail(context, TOO_LONG)

        return grpc.stream_stream_rpc_method_handler(
            handle,  # it writes its answers itself
            request_deserializer=partial(Unread, request),
            response_serializer=lambda message: message.SerializeToString(),
        )

    @contextmanager
    def _counted(self, stream: Stream) -> Iterator[Stream]:
        peer = network_of(stream.peer)
        if (
            self.open.total() >= MAX_CALLS
            or self.open[peer] >= MAX_CALLS_OF_ADDRESS
            or stream.relay.asked >= MAX_CALLS_OF_CONNECTION
        ):
            raise TOO_MANY
        self.open[peer] += 1
        stream.relay.asks(1)
        stream.belongs(STRANGERS)
        try:
            yield stream
        finally:
            self.open[peer] -= 1
            if not self.open[peer]:
                del self.open[peer]
            stream.relay.asks(-1)


async def _first(requests: AsyncIterator[Any]) -> Any:  # noqa: ANN401  # of either rpc
    async for request in requests:
        return request
    raise invalid(MISSING)


async def _requests_of(context: Context, stream: Stream) -> AsyncIterator[Any]:
    """Yield the requests of a call.

    Raises:
        CallError: one is too large, or no request.

    """
    while await stream.coming() <= MAX_UNPACKED:
        if not isinstance(request := await context.read(), Unread):
            return
        stream.read(request.size)
        if request.size > MAX_REQUEST:
            raise TOO_LARGE
        yield whole(request)
    raise TOO_LARGE
