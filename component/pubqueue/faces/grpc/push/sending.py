"""One message to one endpoint: over HTTP, or to `tech.pubsub.PushEndpointService`."""

from __future__ import annotations

import asyncio
import socket
from base64 import b64encode
from concurrent.futures import Future, ThreadPoolExecutor
from enum import Enum, unique
from typing import TYPE_CHECKING, Final

import aiohttp
import grpc
from aiohttp.abc import AbstractResolver, ResolveResult

from pubqueue.faces.grpc.push.endpoints import may_resolve_to
from pubqueue.faces.grpc.tech import messages as tech_messages
from pubqueue.faces.grpc.v1 import messages as v1_messages
from pubqueue.faces.grpc.wire.messages import tech

if TYPE_CHECKING:
    from pubqueue.faces.grpc.push.endpoints import Endpoint
    from pubqueue.model.entities import Item

ACKED: Final = frozenset({102, 200, 201, 202, 204})
"""Codes of HTTP that acknowledge a message."""

BUSY: Final = frozenset({429, 502, 503})
"""Codes that ask for fewer messages."""

LOOKUPS: Final = 16
"""Names that are looked up at a time, one for each host."""

METHOD: Final = "/tech.pubsub.PushEndpointService/HandlePubsubEvent"


@unique
class Outcome(Enum):
    """The outcome of a push."""

    ACK = "ack"
    NACK = "nack"
    PUSH_BACK = "push back"
    """A nack, and the endpoint wants less at a time."""


_threads: Final = ThreadPoolExecutor(LOOKUPS, "push names")
"""A name may belong to a server that never answers: the threads of the event loop are for work that ends."""

_under_way: Final[dict[tuple[str, int], Future[list[str]]]] = {}


async def _addresses(host: str, port: int) -> list[str]:
    """Return the addresses of a host; those who ask meanwhile get the same answer."""
    key = host, port
    if (found := _under_way.get(key)) is None:
        found = _under_way[key] = _threads.submit(_looked_up, host, port)
        found.add_done_callback(lambda _: _under_way.pop(key, None))
    return await asyncio.shield(asyncio.wrap_future(found))


def _looked_up(host: str, port: int) -> list[str]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        return []
    return [str(place[0]) for *_, place in found]


async def address_of(endpoint: Endpoint) -> str | None:
    """Return the address that is called: the first one of the name that may be called, None if there is none."""
    found = await _addresses(endpoint.host, endpoint.port)
    return next((one for one in found if may_resolve_to(endpoint, one)), None)


class FixedResolver(AbstractResolver):
    """Resolves every name to the address that was checked."""

    def __init__(self, address: str) -> None:
        self._address = address

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the address, whatever the name."""
        del family
        kind = socket.AF_INET6 if ":" in self._address else socket.AF_INET
        return [
            ResolveResult(
                hostname=host, host=self._address, port=port, family=kind, proto=0, flags=0
            )
        ]

    async def close(self) -> None:
        """Nothing is open."""


async def push(
    endpoint: Endpoint, subscription: str, item: Item, payload: bytes, patience: float
) -> Outcome:
    """Push an item, and return the outcome within so many seconds; only the endpoint is called, whatever it answers."""
    try:
        async with asyncio.timeout(patience):
            if (address := await address_of(endpoint)) is None:
                return Outcome.NACK
            if endpoint.scheme:
                return await _over_http(endpoint, address, subscription, item, payload)
            event = tech_messages.event_of(item, payload, subscription)
            return await _over_grpc(endpoint, address, event)
    except (TimeoutError, OSError, aiohttp.ClientError):
        return Outcome.NACK


async def tell_deleted(endpoint: Endpoint, subscription: str, patience: float) -> None:
    """Notify an endpoint of `tech.pubsub`, once, that the subscription is deleted."""
    if endpoint.scheme:
        return
    event = tech.PubsubEvent(subscription=subscription, deleted=True)
    try:
        async with asyncio.timeout(patience):
            if (address := await address_of(endpoint)) is not None:
                await _over_grpc(endpoint, address, event)
    except (TimeoutError, OSError):
        return


async def _over_http(
    endpoint: Endpoint, address: str, subscription: str, item: Item, payload: bytes
) -> Outcome:
    connector = aiohttp.TCPConnector(resolver=FixedResolver(address), use_dns_cache=False)
    async with aiohttp.ClientSession(connector=connector, trust_env=False) as session:
        body = as_json(subscription, item, payload)
        async with session.post(endpoint.url, json=body, allow_redirects=False) as answer:
            if answer.status in ACKED:
                return Outcome.ACK
            return Outcome.PUSH_BACK if answer.status in BUSY else Outcome.NACK


def as_json(subscription: str, item: Item, payload: bytes) -> dict[str, object]:
    """Return the body of a push over HTTP, in Google's format."""
    message = v1_messages.written(item, payload)
    moment = message.publish_time.ToJsonString()
    inner: dict[str, object] = {
        "data": b64encode(message.data).decode(),
        "messageId": message.message_id,
        "message_id": message.message_id,
        "publishTime": moment,
        "publish_time": moment,
    }
    if message.attributes:
        inner["attributes"] = dict(message.attributes)
    if message.ordering_key:
        inner["orderingKey"] = message.ordering_key
    return {"message": inner, "subscription": subscription}


async def _over_grpc(endpoint: Endpoint, address: str, event: tech.PubsubEvent) -> Outcome:
    place = f"[{address}]" if ":" in address else address
    async with grpc.aio.insecure_channel(f"{place}:{endpoint.port}") as channel:
        call = channel.unary_unary(METHOD, request_serializer=_written, response_deserializer=bytes)
        try:
            await call(event)
        except grpc.aio.AioRpcError as problem:
            is_busy = problem.code() is grpc.StatusCode.UNAVAILABLE
            return Outcome.PUSH_BACK if is_busy else Outcome.NACK
    return Outcome.ACK


def _written(event: tech.PubsubEvent) -> bytes:
    data: bytes = event.SerializeToString()
    return data
