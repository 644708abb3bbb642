"""The subscriptions with a push endpoint, and how a message is pushed to one: over HTTP, or to `tech.pubsub.PushEndpointService`."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import grpc

from pubqueue.faces.flow import stepped
from pubqueue.faces.grpc import endpoints, subscriptions
from pubqueue.faces.grpc import fields as v1_messages
from pubqueue.faces.grpc import tech as tech_messages
from pubqueue.faces.grpc.wire import ResourceKind, name_of, tech, to_tech
from pubqueue.faces.push.client import Answer, PushClient
from pubqueue.faces.push.targets import EndpointTerms, Outcome, Target, Verdict
from pubqueue.faces.push.worker import PAUSE, Job
from pubqueue.model.decision import Refusal, Refused
from pubqueue.model.entities import NodeName
from pubqueue.model.records import PushedNodes
from pubqueue.model.replies import Described
from pubqueue.rules.discovery import Describe
from pubqueue.rules.registrations import ListPushed
from pubqueue_xeps.wire.payloads.wrapper import STEP

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from pubqueue.engine.broker import Broker
    from pubqueue.model.entities import Item, Jid, Node, Principal
    from pubqueue_xeps.wire.payloads.wrapper import Body


# Subscriptions with an endpoint that may be called, as their nodes have it.
#
# Each instance works on all of them: an item is pushed by one of them, because it is locked to one. They are read again whenever
# this process has changed a node or another process has written, and from time to time.

RESCAN: Final = 60.0
"""Seconds between two looks, if nothing has changed."""

MAX_WINDOW: Final = 100
"""Up to how many messages are on their way to one endpoint at a time."""

FIRST_WINDOW: Final = 10

FAREWELL: Final = 5.0
"""Seconds for notifying an endpoint that its subscription is deleted."""

NACKED: Final = "its push endpoint has refused it"
"""Why a message is released, for operators."""

ACKED: Final = frozenset({102, 200, 201, 202, 204})
"""Codes of HTTP that acknowledge a message."""

BUSY: Final = frozenset({429, 502, 503})
"""Codes that ask for fewer messages."""

METHOD: Final = "/tech.pubsub.PushEndpointService/HandlePubsubEvent"

JSON: Final = (("Content-Type", "application/json"),)

ACK: Final = Outcome(Verdict.DONE)
NACK: Final = Outcome(Verdict.FAILED, NACKED)
PUSH_BACK: Final = Outcome(Verdict.BUSY, NACKED)


class GrpcPusher:
    """Pushes by these patterns. `puller` makes a principal under an address that no other pull has."""

    def __init__(
        self,
        broker: Broker,
        service: Principal,
        push_to: tuple[str, ...],
        puller: Callable[[], Principal],
    ) -> None:
        self.broker, self.service, self.puller = broker, service, puller
        self.terms = EndpointTerms(push_to)
        self.client = PushClient(self.terms, limit=0, limit_per_host=0)
        """Its limits are the windows."""

    async def close(self) -> None:
        """Close the connections."""
        await self.client.close()

    def every(self) -> float:
        """Return the seconds between two looks, if nothing has changed."""
        return RESCAN

    async def page(self, after: str) -> tuple[Sequence[Node], bool] | None:
        """Return the nodes after a name and whether there are more, None if they cannot be read."""
        page = await self.broker.handle(ListPushed(self.service, NodeName(after) or None))
        return (page.nodes, page.more) if isinstance(page, PushedNodes) else None

    def job(self, node: Node) -> Pushed | None:
        """Return the work on a subscription, None if it has no endpoint that may be called."""
        endpoint = self.endpoint_of(node)
        return None if endpoint is None else Pushed(self, node, endpoint)

    def endpoint_of(self, node: Node) -> Target | None:
        """Return the endpoint of a queue, if it has one that may be called."""
        kept = endpoints.kept(node.config)
        if kept is None or not node.config.queueing:
            return None
        return self.terms.target(kept.endpoint)


class Pushed(Job["Node"]):
    """A subscription with an endpoint."""

    def __init__(self, pusher: GrpcPusher, node: Node, endpoint: Target) -> None:
        super().__init__(node.name, pusher.puller(), RESCAN, node=node.name)
        self._pusher, self._known, self._endpoint = pusher, node, endpoint
        self._window = float(FIRST_WINDOW)
        self._is_over = self._is_deleted = False

    @property
    def account(self) -> Jid:
        """The account that has created the subscription."""
        return self._known.creator or self.by.account

    def has_changed(self, node: Node) -> bool:
        """Return whether the queue is no longer as it was."""
        return self._is_over or node.config != self._known.config

    async def hold(self) -> str | None:
        """Read the queue, and return its endpoint; None if it has none that may be called."""
        describe = Describe(self._pusher.service, self.node, manage=False)
        while isinstance(reply := await self._pusher.broker.handle(describe), Refused):
            if reply.refusal is Refusal.NODE_NOT_FOUND:
                break
            await asyncio.sleep(PAUSE)  # the store has failed
        node = reply.node if isinstance(reply, Described) else None
        endpoint = None if node is None else self._pusher.endpoint_of(node)
        self._is_over, self._is_deleted = endpoint is None, node is None
        if node is None or endpoint is None:
            return None
        self._known, self._endpoint = node, endpoint
        return endpoint.url

    def window(self) -> int:
        """Return how many messages may be on their way."""
        return int(self._window)

    async def push(self, item: Item, payload: bytes) -> Outcome:
        """Push a message; the endpoint has as long for it as an acknowledgement may take, and only it is called."""
        endpoint, name = self._endpoint, name_of(self.node, ResourceKind.SUBSCRIPTION)
        limit = asyncio.timeout(float(self._known.config.lock_timeout))
        try:
            async with limit:
                body = await subscriptions.body_of(item, payload)
                if not endpoint.scheme:
                    return await self._over_grpc(tech_messages.event_of(item, payload, name, body))
                text = await stepped(json_in_steps(name, item, payload, body))
                return await self._over_http(endpoint.url, text)
        except TimeoutError:
            if not limit.expired():
                raise
            return NACK

    async def _over_http(self, url: str, body: bytes) -> Outcome:
        found = await self._pusher.client.call("POST", url, JSON, body)
        if not isinstance(found, Answer):
            return NACK
        if found.status in ACKED:
            return ACK
        return PUSH_BACK if found.status in BUSY else NACK

    def brace(self, outcome: Outcome) -> float:
        """Fit the window: it grows with each acknowledgement, and is halved when the endpoint asks for less."""
        if outcome.verdict is Verdict.DONE:
            self._window = min(float(MAX_WINDOW), self._window + 1)
        if outcome.verdict is not Verdict.BUSY:
            return 0.0
        self._window = max(1.0, self._window / 2)
        return PAUSE

    async def farewell(self) -> None:
        """Notify an endpoint of `tech.pubsub`, once, if the subscription is deleted."""
        if not self._is_deleted or self._endpoint.scheme:
            return
        name = to_tech(name_of(self.node, ResourceKind.SUBSCRIPTION), ResourceKind.SUBSCRIPTION)
        with suppress(TimeoutError):
            async with asyncio.timeout(FAREWELL):
                await self._over_grpc(tech.PubsubEvent(subscription=name, deleted=True))

    async def _over_grpc(self, event: tech.PubsubEvent) -> Outcome:
        endpoint = self._endpoint
        if (address := await self._pusher.client.address_of(endpoint)) is None:
            return NACK
        place = f"[{address}]" if ":" in address else address
        async with grpc.aio.insecure_channel(f"{place}:{endpoint.port}") as channel:
            call = channel.unary_unary(
                METHOD, request_serializer=_written, response_deserializer=bytes
            )
            try:
                await call(event)
            except grpc.aio.AioRpcError as problem:
                is_busy = problem.code() is grpc.StatusCode.UNAVAILABLE
                return PUSH_BACK if is_busy else NACK
        return ACK


_DATA: Final = b'"data": "'


def json_in_steps(
    subscription: str, item: Item, payload: bytes, body: Body | None
) -> Generator[None, None, bytes]:
    """Return the body of a push over HTTP, in Google's format, with pauses while a large message is written."""
    message = v1_messages.written(item, payload, body)
    moment = message.publish_time.ToJsonString()
    inner: dict[str, object] = {
        "data": "",
        "messageId": message.message_id,
        "message_id": message.message_id,
        "publishTime": moment,
        "publish_time": moment,
    }
    if message.attributes:
        inner["attributes"] = dict(message.attributes)
    if message.ordering_key:
        inner["orderingKey"] = message.ordering_key
    asked = json.dumps({"message": inner, "subscription": subscription}).encode()
    head, begin, tail = asked.partition(_DATA)
    pieces, data = [head, begin], memoryview(message.data)
    for at in range(0, len(data), STEP // 4 * 3):  # each piece ends with a group
        if at:
            yield
        pieces.append(b64encode(data[at : at + STEP // 4 * 3]))
    return b"".join((*pieces, tail))


def _written(event: tech.PubsubEvent) -> bytes:
    data: bytes = event.SerializeToString()
    return data
