"""Clients of gRPC for tests: stubs made of the descriptors, without a line of generated code; and a face that they call."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import grpc
from harness.servers.users import accounts_of, users_for

from pubqueue.faces.grpc import wire
from pubqueue.faces.grpc.face import GrpcFace
from pubqueue.faces.grpc.settings import GrpcSettings
from pubqueue.faces.listener.tls import Place

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

NAMES = ("etl", "bee", "ann", "eva", "slow", "eve")
TOKEN = "a token of more than twenty characters"

PUBLISHER, SUBSCRIBER = "google.pubsub.v1.Publisher", "google.pubsub.v1.Subscriber"
TECH_PUBLISHER, TECH_SUBSCRIBER = "tech.pubsub.PublisherService", "tech.pubsub.SubscriberService"
IAM = "google.iam.v1.IAMPolicy"


def a_face(broker, settings=None, tls=None, more_users=(), **more):
    """Return a face on a free port of loopback; callers without credentials are `etl`."""
    accounts = accounts_of([*users_for("grpc", NAMES), *more_users], welcome=NAMES)
    place = Place("127.0.0.1", 0, tls)
    return GrpcFace(broker, accounts, [place], settings or GrpcSettings(anonymous="etl"), **more)


class Stub:
    """The rpcs of a service over a channel, by their names; `metadata` goes with every call."""

    def __init__(self, channel: grpc.aio.Channel, service: str, metadata=()) -> None:
        self._channel, self._service = channel, wire.service(service)
        self.metadata = metadata

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the rpcs."""
        return tuple(self._service.methods_by_name)

    def __getattr__(self, name: str) -> Any:
        method = self._service.methods_by_name[name]
        kind = self._channel.stream_stream if method.server_streaming else self._channel.unary_unary
        call = kind(
            f"/{self._service.full_name}/{name}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=wire.class_for(method.output_type).FromString,
        )
        request = wire.class_for(method.input_type)

        def do(given=None, /, timeout=None, **fields):
            said = request(**fields) if given is None else given
            return call(said, metadata=self.metadata, timeout=timeout)

        return do


async def silent() -> AsyncIterator[Any]:
    """Open a stream, and request nothing: a client that writes to a stream which has been refused reports a fault of its own."""
    await asyncio.Event().wait()
    yield


async def code_of(call) -> grpc.StatusCode:
    """Return the code that a call ends with."""
    try:
        await call
    except grpc.aio.AioRpcError as problem:
        return problem.code()
    return grpc.StatusCode.OK
