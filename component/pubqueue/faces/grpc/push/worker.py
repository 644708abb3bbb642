"""Pushes the items of one queue: takes them, sends them to the endpoint side by side, and settles them by its answers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog

from pubqueue.faces.faults import fault
from pubqueue.faces.grpc.push import endpoints
from pubqueue.faces.grpc.push.sending import Outcome, push, tell_deleted
from pubqueue.faces.grpc.wire.names import ResourceKind, name_of, to_tech
from pubqueue.model.decision import Refusal, Refused, Taken
from pubqueue.model.entities import seconds
from pubqueue.model.replies import Described
from pubqueue.rules.discovery import Describe
from pubqueue.rules.settle import Outcome as Ending
from pubqueue.rules.settle import Settle, Verb
from pubqueue.rules.settle_each import LockName, SettleEach
from pubqueue.rules.take import Take

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pubqueue.faces.grpc.calls import Backend
    from pubqueue.faces.grpc.push.endpoints import Endpoint
    from pubqueue.model.decision import Reply
    from pubqueue.model.entities import Item, Node, NodeName

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
                None if node is None else endpoint_of(node, self._backend.terms.push_to)
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
