"""The server of gRPC, and the handlers of rpcs as it calls them."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import grpc
import structlog
from google.rpc import error_details_pb2, status_pb2
from grpc import StatusCode
from msgspec import Struct

from pubqueue.faces.grpc import wire
from pubqueue.faces.grpc.callers import LARGE, READING, OpenCalls, Turns, Unread
from pubqueue.faces.grpc.front import MAX_FRAME, MAX_MESSAGE, MAX_STREAMS
from pubqueue.faces.grpc.settings import WORD
from pubqueue.faces.grpc.statuses import STOPPING, CallError, invalid
from pubqueue.logs import fault
from pubqueue.rules.nodeconfig import MAX_PAYLOAD_BYTES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from pubqueue.engine.connections import GrpcCalls, Method
    from pubqueue.faces.grpc.calls import Call, Streaming, Unary
    from pubqueue.faces.grpc.front import Stream

    Context = grpc.aio.ServicerContext[Any, Any]


# The handlers of rpcs as gRPC calls them: each authenticates its caller, is counted, and fails in the words of the protocol.

log = structlog.get_logger(__name__)

MISSING: Final = "A request of this rpc has a message."
MAX_REQUEST: Final = 8 << 20
"""Bytes of a request that publishes nothing, such as 2,500 ack ids of 3,000 characters. It is parsed in one go, and every client waits for that."""

TOO_MANY_BYTES: Final = f"A request of this rpc has at most {MAX_REQUEST} bytes."
TOO_LARGE: Final = f"A request of this rpc has less than {LARGE} bytes."


def whole(request: Unread) -> Any:  # noqa: ANN401  # of any rpc
    """Return the message of a request.

    Raises:
        CallError: it is invalid, or has a field that would be ignored. gRPC itself would return an unknown error.

    """
    if (message := request.read()) is None:
        raise invalid("The request is not a message of this rpc.")
    wire.check_fields(message)
    return message


async def _received(context: Context, stream: Stream) -> Unread:
    """Return the message of a unary call as it came.

    Raises:
        CallError: the client has ended the call without one.

    """
    request: Unread | object = await context.read()
    if not isinstance(request, Unread):  # the end
        raise invalid(MISSING)
    stream.read(request.size)
    return request


async def each_whole(
    requests: AsyncIterator[Unread], stream: Stream, reading: Turns
) -> AsyncIterator[Any]:
    """Yield the messages of a stream as long as they can be read; large ones when the account has room for them.

    Raises:
        CallError: one could not.

    """
    while True:
        async with reading.of(await stream.coming(), stream.owner):
            request = await anext(requests, None)
        if request is None:
            return
        stream.read(request.size)
        if request.size > MAX_REQUEST:
            raise invalid(TOO_MANY_BYTES)
        yield whole(request)
        stream.done()


class Answering:
    """Makes the handlers. `call_of` authenticates the caller of a call, and returns its stream too."""

    def __init__(
        self, counts: GrpcCalls, call_of: Callable[[Context], Awaitable[tuple[Call, Stream]]]
    ) -> None:
        self._counts, self._call_of = counts, call_of
        self._turns, self._open = Turns(), OpenCalls()
        self.reading = Turns(1 << 60, READING)

    def unary(
        self, method: Method, handle: Unary, *, waits: bool = False, publishes: bool = False
    ) -> Callable[[Any, Context], Awaitable[Any]]:
        """Return the handler of an rpc that is one request and one answer; if it may wait, its request is small.

        The handler itself reads the request, when it knows the account and there is room.
        """
        counts = self._counts

        async def answer(_requests: object, context: Context) -> Any:  # noqa: ANN401  # bytes
            begun, code, call = time.monotonic(), grpc.StatusCode.OK, None
            counts.begin(method)
            try:
                call, stream = await self._call_of(context)
                self._open.enter(call.account)
                try:
                    async with self.reading.of(await stream.coming(), call.account):
                        request = await _received(context, stream)
                        call.size = request.size
                        if request.size >= LARGE:
                            if request.size > MAX_REQUEST and not publishes:
                                raise invalid(TOO_MANY_BYTES)
                            if waits:  # it would keep its bytes and its turn
                                raise invalid(TOO_LARGE)
                            async with self._turns.of(request.size, call.account):
                                return _answer(stream, await handle(call, whole(request)))
                    return _answer(stream, await handle(call, whole(request)))
                finally:
                    self._open.leave(call.account)
            except CallError as problem:
                code = problem.code
                if call is not None:
                    call.charge(problem)
                await fail(context, problem)
            except asyncio.CancelledError:
                code = _cancelled(context)
                raise
            except Exception as problem:  # the boundary between this call and all others
                code = grpc.StatusCode.INTERNAL
                await _fail(context, method, problem)
            finally:
                counts.end(method, code.name, time.monotonic() - begun)

        return answer

    def streaming(
        self, method: Method, handle: Streaming
    ) -> Callable[[Any, Context], AsyncIterator[bytes]]:
        """Return the handler of an rpc that is a stream."""
        counts, call_of = self._counts, self._call_of

        async def answer(requests: Any, context: Context) -> AsyncIterator[bytes]:  # noqa: ANN401
            code, call = grpc.StatusCode.OK, None
            counts.begin(method)
            try:
                call, stream = await call_of(context)
                async for one in handle(call, each_whole(requests, stream, self.reading)):
                    yield _answer(stream, one)
                    stream.answers(0)
            except CallError as problem:
                code = problem.code
                if call is not None:
                    call.charge(problem)
                await fail(context, problem)
            except (asyncio.CancelledError, GeneratorExit):
                code = _cancelled(context)
                raise
            except Exception as problem:  # the boundary between this call and all others
                code = grpc.StatusCode.INTERNAL
                await _fail(context, method, problem)
            finally:
                counts.end(method, code.name, None)

        return answer


def _answer(stream: Stream, message: Any) -> bytes:  # noqa: ANN401  # of either binding
    """Return an answer as it is sent; it is kept until the client takes it."""
    data: bytes = message.SerializeToString()
    stream.answers(len(data))
    return data


def _cancelled(context: Context) -> grpc.StatusCode:
    """Return whether the client has gone, or its deadline has come."""
    left: float | None = context.time_remaining()
    is_late = left is not None and left <= 0
    return grpc.StatusCode.DEADLINE_EXCEEDED if is_late else grpc.StatusCode.CANCELLED


async def _fail(context: Context, method: Method, problem: Exception) -> None:
    """Log a fault of ours, and end its call without details."""
    log.error("call.failed", face=WORD, rpc=method[1], **fault(problem))
    await context.abort(grpc.StatusCode.INTERNAL, "The service has met a fault of its own.")


# The server of gRPC: its options, and the services with a handler for each rpc of a table.

if TYPE_CHECKING:
    UnaryHandler = Callable[[Any, grpc.aio.ServicerContext[Any, Any]], Awaitable[Any]]
    StreamingHandler = Callable[
        [AsyncIterator[Any], grpc.aio.ServicerContext[Any, Any]], AsyncIterator[Any]
    ]

MAX_PENDING: Final = 10_000
"""Calls that wait for the service to accept them, as when very many clients reconnect at the same time."""

OPTIONS: Final = (
    ("grpc.max_receive_message_length", MAX_MESSAGE),
    ("grpc.max_send_message_length", MAX_PAYLOAD_BYTES + (2 << 20)),  # with its headers
    # clients of Google's send pings every 10 s, also without calls
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.max_concurrent_streams", MAX_STREAMS),
    ("grpc.http2.max_frame_size", MAX_FRAME),
    ("grpc.http2.bdp_probe", 0),
    # beyond the first, calls that come at the same moment are refused at random
    ("grpc.server.max_pending_requests", MAX_PENDING),
    ("grpc.server.max_pending_requests_hard_limit", 2 * MAX_PENDING),
    ("grpc.so_reuseport", 0),
)

DETAILS: Final = "grpc-status-details-bin"
"""The trailing metadata with a `google.rpc.Status`."""

DOMAIN: Final = "pubsub.googleapis.com"
"""The domain of reasons in `google.rpc.ErrorInfo`, as clients expect it."""


class Rpcs(Struct, frozen=True):
    """The handlers of the rpcs of a service, by their names. They return bytes."""

    service: str
    unary: Mapping[str, UnaryHandler]
    streaming: Mapping[str, StreamingHandler] = {}


def handlers(rpcs: Rpcs) -> grpc.GenericRpcHandler:
    """Return the handlers of a service as gRPC takes them. Each rpc of the service has a row."""
    found: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}
    for method in wire.service(rpcs.service).methods:
        read = partial(Unread, wire.class_for(method.input_type))
        if method.server_streaming:
            found[method.name] = grpc.stream_stream_rpc_method_handler(
                rpcs.streaming[method.name], request_deserializer=read
            )
        else:
            found[method.name] = (
                grpc.stream_unary_rpc_method_handler(  # so that a handler says when it reads
                    rpcs.unary[method.name], request_deserializer=read
                )
            )
    return grpc.method_handlers_generic_handler(rpcs.service, found)


async def fail(context: grpc.aio.ServicerContext[Any, Any], problem: CallError) -> None:
    """End a call with its code, its sentence and its details."""
    trailing: tuple[tuple[str, bytes], ...] = ()
    if problem.reasons:
        info = error_details_pb2.ErrorInfo(
            reason="ACK_ID", domain=DOMAIN, metadata=dict(problem.reasons)
        )
        status = status_pb2.Status(code=problem.code.value[0], message=problem.message)
        status.details.add().Pack(info)
        trailing = ((DETAILS, status.SerializeToString()),)
    await context.abort(problem.code, problem.message, trailing)


# Work that ends with the service, whatever it waits for.


class UntilStop:
    """The work that is under way."""

    def __init__(self) -> None:
        self._limits: set[asyncio.Timeout] = set()
        self._is_over = False

    @asynccontextmanager
    async def within(self, seconds: float) -> AsyncIterator[None]:
        """Let the body last so many seconds, and no longer than the service.

        Raises:
            CallError: it has lasted longer.

        """
        if self._is_over:
            raise STOPPING
        try:
            async with asyncio.timeout(seconds) as limit:
                self._limits.add(limit)
                try:
                    yield
                finally:
                    self._limits.discard(limit)
        except TimeoutError:
            if not limit.expired():
                raise
            if self._is_over:
                raise STOPPING from None
            raise CallError(
                StatusCode.UNAVAILABLE, "There was no answer in time; try again."
            ) from None

    def end(self) -> None:
        """End all work now, and what begins later at once."""
        self._is_over = True
        now = asyncio.get_running_loop().time()
        for limit in self._limits:
            limit.reschedule(now)
