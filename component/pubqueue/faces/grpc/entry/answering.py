"""The handlers of rpcs as gRPC calls them: each authenticates its caller, is counted, and fails in the words of the protocol."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import grpc
import structlog

from pubqueue.faces.faults import fault
from pubqueue.faces.grpc.entry.reading import Reading
from pubqueue.faces.grpc.entry.server import fail
from pubqueue.faces.grpc.entry.turns import LARGE, Turns, Unread
from pubqueue.faces.grpc.entry.who import WORD
from pubqueue.faces.grpc.wire.statuses import CallError, invalid

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from pubqueue.engine.connections import GrpcCalls, Method
    from pubqueue.faces.grpc.calls import Call
    from pubqueue.faces.grpc.services import Streaming, Unary

    Context = grpc.aio.ServicerContext[Any, Any]

log = structlog.get_logger(__name__)

MISSING: Final = "A request of this rpc has a message."
TOO_LARGE: Final = f"A request of this rpc has less than {LARGE} bytes."


def whole(request: Unread) -> Any:  # noqa: ANN401  # of any rpc
    """Return the message of a request.

    Raises:
        CallError: it is invalid. gRPC itself would return an unknown error.

    """
    if (message := request.read()) is None:
        raise invalid("The request is not a message of this rpc.")
    return message


async def _received(context: Context) -> Unread:
    """Return the message of a unary call as it came.

    Raises:
        CallError: the client has ended the call without one.

    """
    request: Unread | object = await context.read()
    if not isinstance(request, Unread):  # the end
        raise invalid(MISSING)
    return request


async def each_whole(requests: AsyncIterator[Unread]) -> AsyncIterator[Any]:
    """Yield the messages of a stream as long as they can be read.

    Raises:
        CallError: one could not.

    """
    async for request in requests:
        yield whole(request)


class Answering:
    """Makes the handlers. `call_of` authenticates the caller of a call."""

    def __init__(self, counts: GrpcCalls, call_of: Callable[[Context], Awaitable[Call]]) -> None:
        self._counts, self._call_of = counts, call_of
        self._reading, self._turns = Reading(), Turns()

    def unary(
        self, method: Method, handle: Unary, *, waits: bool = False
    ) -> Callable[[Any, Context], Awaitable[Any]]:
        """Return the handler of an rpc that is one request and one answer; if it may wait, its request is small.

        The handler itself reads the request, when it knows the account and there is room.
        """
        counts, call_of, turns = self._counts, self._call_of, self._turns
        reading = self._reading

        async def answer(_requests: object, context: Context) -> Any:  # noqa: ANN401  # of either binding
            begun, code = time.monotonic(), grpc.StatusCode.OK
            counts.begin(method)
            try:
                call = await call_of(context)
                # a proxy may have calls of several accounts on a connection
                reader = call.origin.peer, call.account
                request = await reading.read(reader, partial(_received, context))
                call.size = request.size
                if request.size < LARGE:
                    return await handle(call, whole(request))
                try:
                    if waits:  # it would keep its bytes and its turn
                        raise invalid(TOO_LARGE)
                    async with turns.of(request.size, call.account):
                        return await handle(call, whole(request))
                finally:
                    reading.done(reader, call.size)
            except CallError as problem:
                code = problem.code
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
    ) -> Callable[[Any, Context], AsyncIterator[Any]]:
        """Return the handler of an rpc that is a stream."""
        counts, call_of = self._counts, self._call_of

        async def answer(requests: Any, context: Context) -> AsyncIterator[Any]:  # noqa: ANN401
            code = grpc.StatusCode.OK
            counts.begin(method)
            try:
                async for one in handle(await call_of(context), each_whole(requests)):
                    yield one
            except CallError as problem:
                code = problem.code
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


def _cancelled(context: Context) -> grpc.StatusCode:
    """Return whether the client has gone, or its deadline has come."""
    left: float | None = context.time_remaining()
    is_late = left is not None and left <= 0
    return grpc.StatusCode.DEADLINE_EXCEEDED if is_late else grpc.StatusCode.CANCELLED


async def _fail(context: Context, method: Method, problem: Exception) -> None:
    """Log a fault of ours, and end its call without details."""
    log.error("call.failed", face=WORD, rpc=method[1], **fault(problem))
    await context.abort(grpc.StatusCode.INTERNAL, "The service has met a fault of its own.")
