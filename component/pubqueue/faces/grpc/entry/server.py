"""The server of gRPC: its options, and the services with a handler for each rpc of a table."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import grpc
from google.rpc import error_details_pb2, status_pb2
from grpc_health.v1 import health
from grpc_health.v1.health import aio as aio_health
from grpc_health.v1.health_pb2 import DESCRIPTOR as HEALTH
from grpc_health.v1.health_pb2 import HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import add_HealthServicer_to_server
from grpc_reflection.v1alpha import reflection
from msgspec import Struct

from pubqueue.faces.grpc.entry.turns import Unread
from pubqueue.faces.grpc.wire import messages

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from pubqueue.faces.grpc.wire.statuses import CallError

    Unary = Callable[[Any, grpc.aio.ServicerContext[Any, Any]], Awaitable[Any]]
    Streaming = Callable[
        [AsyncIterator[Any], grpc.aio.ServicerContext[Any, Any]], AsyncIterator[Any]
    ]

MAX_MESSAGE: Final = 20 << 20
"""Bytes of a message in either direction: one that is slightly too large gets an error of ours."""

MAX_PENDING: Final = 10_000
"""Calls that wait for the service to accept them, as when very many clients reconnect at the same time."""

OPTIONS: Final = (
    ("grpc.max_receive_message_length", MAX_MESSAGE),
    ("grpc.max_send_message_length", MAX_MESSAGE),
    # clients of Google's send pings every 10 s, also without calls
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.max_concurrent_streams", 1_000),
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
    """The handlers of the rpcs of a service, by their names."""

    service: str
    unary: Mapping[str, Unary]
    streaming: Mapping[str, Streaming] = {}


def handlers(rpcs: Rpcs) -> grpc.GenericRpcHandler:
    """Return the handlers of a service as gRPC takes them. Each rpc of the service has a row."""
    found: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}
    for method in messages.service(rpcs.service).methods:
        read = partial(Unread, messages.class_for(method.input_type))
        if method.server_streaming:
            found[method.name] = grpc.stream_stream_rpc_method_handler(
                rpcs.streaming[method.name], request_deserializer=read, response_serializer=_written
            )
        else:
            found[method.name] = (
                grpc.stream_unary_rpc_method_handler(  # so that a handler says when it reads
                    rpcs.unary[method.name], request_deserializer=read, response_serializer=_written
                )
            )
    return grpc.method_handlers_generic_handler(rpcs.service, found)


def _written(message: Any) -> bytes:  # noqa: ANN401  # of either binding
    data: bytes = message.SerializeToString()
    return data


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


class Health:
    """Whether the services serve, as load balancers ask (grpc.health.v1)."""

    def __init__(self, services: tuple[str, ...]) -> None:
        self._names = (health.OVERALL_HEALTH, *services)
        self._servicer = aio_health.HealthServicer()
        self.serves = False

    def add_to(self, server: grpc.aio.Server) -> None:
        """Serve it there."""
        add_HealthServicer_to_server(self._servicer, server)

    async def set(self, *, serves: bool) -> None:
        """Report that all of them serve, or that none does."""
        self.serves = serves
        status = HealthCheckResponse.SERVING if serves else HealthCheckResponse.NOT_SERVING
        for name in self._names:
            await self._servicer.set(name, status)


def reflect(services: tuple[str, ...], server: grpc.aio.Server) -> None:
    """Let clients read the descriptors of the services."""
    own = HEALTH.services_by_name["Health"].full_name
    names = (*services, own, reflection.SERVICE_NAME)
    reflection.enable_server_reflection(names, server, pool=messages.POOL)
