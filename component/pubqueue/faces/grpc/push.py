"""Pushes the items of subscriptions to their endpoints."""

from __future__ import annotations

import asyncio
import socket
from base64 import b64encode
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from enum import Enum, unique
from typing import TYPE_CHECKING, Final

import aiohttp
import grpc
import structlog
from aiohttp.abc import AbstractResolver, ResolveResult

from pubqueue.faces.grpc import endpoints
from pubqueue.faces.grpc import fields as v1_messages
from pubqueue.faces.grpc import tech as tech_messages
from pubqueue.faces.grpc.endpoints import may_resolve_to
from pubqueue.faces.grpc.wire import ResourceKind, name_of, tech, to_tech
from pubqueue.logs import fault
from pubqueue.model.decision import Refusal, Refused, Taken
from pubqueue.model.entities import seconds
from pubqueue.model.records import PushedNodes
from pubqueue.model.replies import Described
from pubqueue.rules.discovery import Describe
from pubqueue.rules.registrations import ListPushed
from pubqueue.rules.settle import Outcome as Ending
from pubqueue.rules.settle import Settle, Verb
from pubqueue.rules.settle_each import LockName, SettleEach
from pubqueue.rules.take import Take

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pubqueue.faces.grpc.calls import Backend
    from pubqueue.faces.grpc.endpoints import Endpoint
    from pubqueue.model.decision import Reply
    from pubqueue.model.entities import Item, Node, NodeName


# Pushes the items of one queue: takes them, sends them to the endpoint side by side, and settles them by its answers.

log = structlog.get_logger(__name__)

MAX_WINDOW: Final = 100
"""Up to how many messages are on their way to one endpoint at a time."""

FIRST_WINDOW: Final = 10
WAIT: Final = 60.0
"""Seconds for which a worker waits for items before it checks again whether there is an endpoint."""

PAUSE: Final = 1.0
"""Seconds before a worker continues after a fault."""

FAREWELL: Final = 5.0
"""Seconds for notifying an endpoint that its subscription is deleted."""

NACKED: Final = "its push endpoint has refused it"
"""Why a message is released, for operators."""


def endpoint_of(node: Node, push_to: Iterable[str]) -> Endpoint | None:
    """Return the endpoint of a queue, if it has one that may be called."""
    kept = endpoints.kept(node.config)
    if kept is None or not node.config.queueing:
        return None
    try:
        found = endpoints.read(kept.endpoint)
    except endpoints.EndpointError:
        return None
    return found if endpoints.is_allowed(found, push_to) else None


class Worker:
    """Works for a queue as long as it has an endpoint."""

    def __init__(self, backend: Backend, name: NodeName) -> None:
        self._backend, self._name = backend, name
        self._node: Node | None = None
        self.endpoint: Endpoint | None = None
        """Where it pushes to; None before its first look."""
        self._window = float(FIRST_WINDOW)
        self._is_stale = False
        self._end_wait: Callable[[], None] = _nothing

    def see(self, node: Node) -> None:
        """Look at the queue again, if it is not as it was."""
        if self._node is not None and node.config != self._node.config:
            self.look()

    def look(self) -> None:
        """Look at the queue again before anything else is pushed: it may have another endpoint, or none."""
        self._is_stale = True
        self._end_wait()

    async def run(self) -> None:
        """Push items as they arrive, as long as the queue has an endpoint."""
        by = self._backend.service
        while True:
            self._is_stale = False
            reply = await self._backend.handle(by, Describe(by, self._name, manage=False))
            if isinstance(reply, Refused) and reply.refusal is not Refusal.NODE_NOT_FOUND:
                await asyncio.sleep(PAUSE)  # the store has failed
                continue
            node = self._node = reply.node if isinstance(reply, Described) else None
            before = self.endpoint
            endpoint = self.endpoint = (
                None if node is None else endpoint_of(node, self._backend.grpc.push_to)
            )
            if node is None or endpoint is None:
                if node is None and before is not None:
                    await tell_deleted(before, _tech_name(self._name), FAREWELL)
                return
            try:
                await self._round(node, endpoint)
            except Exception as problem:  # the boundary between this worker and all others
                log.error("push.failed", node=self._name, **fault(problem))  # noqa: TRY400  # no trace of contents
                await asyncio.sleep(PAUSE)

    async def _round(self, node: Node, endpoint: Endpoint) -> None:
        """Take items, push them side by side, and fit the window for the next ones."""
        reply = await self._taken(max(1, int(self._window)))
        if isinstance(reply, Refused):
            if reply.refusal is not Refusal.NODE_NOT_FOUND:
                await asyncio.sleep(PAUSE)
            return
        assert isinstance(reply, Taken)
        if self._is_stale:
            self._release(reply)
            return
        outcomes = await asyncio.gather(*(self._one(node, endpoint, *one) for one in reply.items))
        window = self._window
        for outcome in outcomes:
            window = max(1.0, window / 2) if outcome is Outcome.PUSH_BACK else window
            window = min(float(MAX_WINDOW), window + 1) if outcome is Outcome.ACK else window
        self._window = window
        if Outcome.PUSH_BACK in outcomes:
            await asyncio.sleep(PAUSE)

    async def _taken(self, count: int) -> Reply:
        """Wait for items, or until the queue has to be looked at again."""
        reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()

        def answer(found: Reply) -> None:
            if not reply.done():
                reply.set_result(found)
            else:
                self._release(found)

        by = self._backend.pusher()
        end = self._backend.take(Take(by, self._name, count, seconds(WAIT)), answer)
        self._end_wait = end
        if self._is_stale:
            end()
        try:
            return await reply
        except asyncio.CancelledError:
            reply.cancel()
            end()
            raise
        finally:
            self._end_wait = _nothing

    def _release(self, found: Reply) -> None:
        """Release items that were taken but not pushed."""
        if isinstance(found, Taken) and found.items:
            by = self._backend.service
            locks = tuple(LockName(one.id, one.token, one.holder) for one, _ in found.items)
            self._backend.submit(by, SettleEach(Settle(by, self._name, (), Verb.UNLOCK), locks))

    async def _one(self, node: Node, endpoint: Endpoint, item: Item, payload: bytes) -> Outcome:
        subscription = name_of(self._name, ResourceKind.SUBSCRIPTION)
        patience = float(node.config.lock_timeout)
        outcome = await push(endpoint, subscription, item, payload, patience)
        by = self._backend.service
        template = Settle(by, self._name, (), Verb.RETRACT, late=True)
        if outcome is not Outcome.ACK:
            template = Settle(by, self._name, (), Verb.UNLOCK, outcome=Ending.FAILED, reason=NACKED)
        lock = LockName(item.id, item.token, item.holder)
        await self._backend.handle(by, SettleEach(template, (lock,)))
        return outcome


def _nothing() -> None:
    """Do nothing: the worker does not wait."""


def _tech_name(node: NodeName) -> str:
    return to_tech(name_of(node, ResourceKind.SUBSCRIPTION), ResourceKind.SUBSCRIPTION)


# The workers of a process: one for each subscription with an endpoint that may be called.
#
# Each instance has its own workers: an item is pushed by one of them, because it is locked to one. Which subscriptions have an
# endpoint is read again whenever this process has changed a node or another process has written, and from time to time; and
# only if anything may be pushed at all.

RESCAN: Final = 60.0
"""Seconds between two looks, if nothing has changed."""


class Pushers:
    """The workers by their queues, and the task that looks for queues without one."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._workers: dict[NodeName, tuple[Worker, asyncio.Task[None]]] = {}
        self._scanning: asyncio.Task[None] | None = None
        self._news = asyncio.Event()

    @property
    def working(self) -> dict[NodeName, str]:
        """The endpoints of the workers by queue, "" for one that has just begun."""
        workers = {name: worker.endpoint for name, (worker, _) in self._workers.items()}
        return {name: "" if one is None else one.url for name, one in workers.items()}

    def start(self) -> None:
        """Look for subscriptions with an endpoint, if anything may be pushed at all."""
        if self._backend.grpc.push_to and self._scanning is None:
            self._scanning = asyncio.create_task(self._scan(), name="push scan")

    async def stop(self) -> None:
        """End all workers; their current items are released at their deadlines."""
        tasks = [task for _, task in self._workers.values()]
        if self._scanning is not None:
            tasks.append(self._scanning)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._workers.clear()
        self._scanning = None

    def look(self) -> None:
        """Look soon: nodes may have changed."""
        self._news.set()

    async def _scan(self) -> None:
        while True:
            self._news.clear()
            try:
                await self._look_at_all()
            except Exception as problem:  # the next look may succeed
                log.error("push.scan_failed", **fault(problem))  # noqa: TRY400  # no trace of contents
            with suppress(TimeoutError):
                async with asyncio.timeout(RESCAN):
                    await self._news.wait()

    async def _look_at_all(self) -> None:
        """Start the workers that are missing, and have those that are out of date look at their queues again."""
        service, after = self._backend.service, None
        left = set(self._workers)
        while True:
            page = await self._backend.handle(service, ListPushed(service, after))
            if not isinstance(page, PushedNodes):
                return
            for node in page.nodes:
                self._see(node)
                left.discard(node.name)
                after = node.name
            if not page.more:
                break
        for name in left & self._workers.keys():
            self._workers[name][0].look()

    def _see(self, node: Node) -> None:
        if (found := self._workers.get(node.name)) is not None:
            found[0].see(node)
        elif endpoint_of(node, self._backend.grpc.push_to) is not None:
            worker = Worker(self._backend, node.name)
            task = asyncio.create_task(worker.run(), name="pushing")
            self._workers[node.name] = worker, task
            task.add_done_callback(lambda done: self._ended(node, done))

    def _ended(self, node: Node, task: asyncio.Task[None]) -> None:
        """Forget a worker. If its queue has an endpoint again by then, the next look starts another one."""
        if (found := self._workers.get(node.name)) is not None and found[1] is task:
            del self._workers[node.name]
            if task.cancelled() or (problem := task.exception()) is None:
                self.look()
            else:
                log.error("push.failed", node=node.name, **fault(problem))


# One message to one endpoint: over HTTP, or to `tech.pubsub.PushEndpointService`.

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
