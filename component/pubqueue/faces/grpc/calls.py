"""A call: the account that makes it, and its actions on the queues."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from grpc import StatusCode
from msgspec import Struct

from pubqueue.engine.table import MAX_NAMED
from pubqueue.faces.grpc.pubsub.open_streams import Origin
from pubqueue.faces.grpc.wire import names
from pubqueue.faces.grpc.wire.statuses import (
    CODES,
    NOT_AUTHORIZED,
    CallError,
    invalid,
    not_found,
    problem_of,
)
from pubqueue.model.decision import Refused, Taken
from pubqueue.rules.discovery import Describe
from pubqueue.rules.nodes import Create
from pubqueue.rules.settle import Settle, Verb
from pubqueue.rules.settle_each import LockName, SettleEach

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pubqueue.engine.table import Request
    from pubqueue.faces.grpc.pubsub.open_streams import OpenStream
    from pubqueue.faces.grpc.pubsub.outstanding import Outstanding
    from pubqueue.faces.grpc.terms import Terms
    from pubqueue.faces.grpc.wire.names import ResourceKind
    from pubqueue.model.decision import Reply
    from pubqueue.model.entities import ItemId, Jid, Millis, NodeName, Principal
    from pubqueue.rules.take import Take


class Backend(Protocol):
    """The interface of the face for calls."""

    terms: Terms
    outstanding: Outstanding
    service: Principal
    """The service itself."""

    is_stopping: bool

    def now(self) -> Millis:
        """Return the time by which requests are judged."""

    def open_stream(self, call: Call) -> OpenStream:
        """Return a stream, counted until `close_stream`; raises CallError if there are too many."""

    def close_stream(self, stream: OpenStream) -> None:
        """Count a stream no more."""

    async def handle(self, by: Principal, request: Request, size: int = 0) -> Reply:
        """Have a request of so many bytes decided; see `Broker.handle`."""

    def submit(self, by: Principal, request: Request) -> None:
        """Have a request decided whose reply does not matter."""

    def take(self, request: Take, answer: Callable[[Reply], None]) -> Callable[[], None]:
        """Ask for items; see `Broker.take`."""

    def puller(self, account: Jid) -> Principal:
        """Return a principal of the account under an address that no other pull has."""

    def pusher(self) -> Principal:
        """Return a principal of the service under an address that no other pull has."""

    def new_ids(self, count: int) -> list[ItemId]:
        """Return rising ids that no other process and no other call has made."""


class Caller(Struct, frozen=True):
    """The account of a call, as its principal, and the projects that exist for it; None: all."""

    by: Principal
    projects: frozenset[str] | None = None


class Call:
    """One call. `left` is how many seconds the client waits at most, None for any time."""

    def __init__(
        self,
        caller: Caller,
        backend: Backend,
        left: float | None = None,
        origin: Origin = Origin(),  # noqa: B008  # frozen
    ) -> None:
        self.by, self._projects = caller.by, caller.projects
        self.backend, self.left, self.origin = backend, left, origin
        self.size = 0
        """Bytes of the request; 0 if they are not known."""

    @property
    def account(self) -> Jid:
        """The account that makes the call."""
        return self.by.account

    def node(
        self, name: str, kind: ResourceKind, field: str = "name", *, creates: bool = False
    ) -> NodeName:
        """Return the node of a name in a request.

        Raises:
            CallError: the text is not a name, or the account may not use the project.

        """
        if not name:
            raise invalid(f"{field} is required")
        try:
            node = names.node_of(name, kind)
        except names.BadNameError as problem:
            raise invalid(str(problem)) from None
        if self.may_use(names.project_of(name)):
            return node
        if creates:
            raise CallError(StatusCode.PERMISSION_DENIED, NOT_AUTHORIZED)
        raise not_found(name)

    def may_use(self, project: str) -> bool:
        """Return whether the project exists for the account."""
        if project == names.BRIDGE and not self.backend.terms.bridge:
            return False
        return self._projects is None or project in self._projects

    async def ask(self, request: Request, resource: str = "", size: int = 0) -> Reply:
        """Have a request of so many bytes decided, and return the reply; `resource` is the name of its subject.

        Raises:
            CallError: it was refused.

        """
        reply = await self.backend.handle(self.by, request, size)
        if isinstance(reply, Refused):
            node = None if isinstance(request, Create) else getattr(request, "node", None)
            raise await self.refusal(reply, node, resource)
        return reply

    async def refusal(self, refused: Refused, node: NodeName | None, resource: str) -> CallError:
        """Return the end of a call whose request was refused: resources that the account may not know of do not exist for it."""
        if CODES[refused.refusal] is StatusCode.PERMISSION_DENIED and node is not None:
            seen = await self.backend.handle(
                self.by, Describe(self.by, node, manage=False, known=True)
            )
            if isinstance(seen, Refused):
                return not_found(resource)
        return problem_of(refused, resource)

    async def take(self, request: Take, resource: str = "") -> Reply:
        """Ask for items, and wait for them as long as the request allows; a caller that goes gets none.

        Raises:
            CallError: it was refused.

        """
        taken: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()

        def answer(reply: Reply) -> None:
            if not taken.done():
                taken.set_result(reply)
            else:
                self._return(reply)

        end_wait = self.backend.take(request, answer)
        try:
            reply = await taken
        except asyncio.CancelledError:
            if taken.done() and not taken.cancelled():
                self._return(taken.result())
            taken.cancel()
            end_wait()
            raise
        if isinstance(reply, Refused):
            raise await self.refusal(reply, request.node, resource)
        return reply

    def _return(self, reply: Reply) -> None:
        """Release items that no caller waits for any more."""
        if isinstance(reply, Taken) and reply.items:
            locks = [LockName(item.id, item.token, item.holder) for item, _ in reply.items]
            self.release(reply.node, locks)

    def release(self, node: NodeName, locks: Sequence[LockName]) -> None:
        """Release items of the account without a failure; the result does not matter."""
        template = Settle(self.by, node, (), Verb.UNLOCK)
        for first in range(0, len(locks), MAX_NAMED):
            some = tuple(locks[first : first + MAX_NAMED])
            self.backend.submit(self.by, SettleEach(template, some))
