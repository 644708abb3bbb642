"""A call of gRPC, and what streams of it keep open: their messages and the rows of services."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, Protocol

from grpc import StatusCode
from msgspec import Struct

from pubqueue.faces.grpc import wire
from pubqueue.faces.grpc.statuses import (
    CODES,
    NOT_AUTHORIZED,
    UNKNOWN_CALLER,
    CallError,
    invalid,
    not_found,
    problem_of,
    unimplemented,
)
from pubqueue.model.decision import Refusal, Refused, Taken
from pubqueue.model.entities import NodeName
from pubqueue.rules.discovery import Describe
from pubqueue.rules.nodes import Create
from pubqueue.rules.settle import Settle, Verb
from pubqueue.rules.settle_each import LockName, SettleEach
from pubqueue.rules.validity import MAX_NAMED

if TYPE_CHECKING:
    from asyncio import TimerHandle
    from collections.abc import (
        AsyncIterator,
        Awaitable,
        Callable,
        Collection,
        Iterable,
        Mapping,
        Sequence,
    )

    from pubqueue.accounts.accounts import Proven
    from pubqueue.engine.broker import Broker
    from pubqueue.faces.grpc.settings import GrpcSettings
    from pubqueue.faces.grpc.wire import ResourceKind
    from pubqueue.model.decision import Reply, Request
    from pubqueue.model.entities import Item, ItemId, Jid, Millis, Node, Principal
    from pubqueue.rules.take import Take


# The open streams: how many each account has, and their list for operators (`engine.observe`).

DISMISSED: Final = CallError(StatusCode.UNAVAILABLE, "An administrator has ended this stream.")
"""The end of a stream that an administrator ends: clients open another one, unless their user was removed."""


class Origin(Struct, frozen=True):
    """The origin of a call: the address of its client, whether it has TLS, and its credentials."""

    peer: str = ""
    is_private: bool = False
    proven: Proven | None = None


class OpenStream:
    """A stream of a client. All its items are locked to its address."""

    def __init__(self, by: Principal, origin: Origin) -> None:
        self.by, self.proven = by, origin.proven
        self.address: str = by.jid
        self.peer, self.is_private = origin.peer, origin.is_private
        self.node = NodeName("")
        """The queue that it takes from, as soon as its client has named it."""
        self.credit: Credit | None = None
        self.problem: CallError | None = None
        """How it has to end."""
        self.changed = asyncio.Event()
        """Set when it has something to do."""
        self._quiet: bool | None = False
        self._begun = time.monotonic()

    @property
    def quiet(self) -> bool | None:
        """Whether an operator has it ask for no further items."""
        return self._quiet

    @quiet.setter
    def quiet(self, quiet: bool | None) -> None:
        self._quiet = quiet
        self.changed.set()

    @property
    def age(self) -> float:
        """Seconds since it was opened."""
        return time.monotonic() - self._begun

    @property
    def nodes(self) -> tuple[NodeName, ...]:
        """The queues that it takes from."""
        return (self.node,) if self.node else ()

    def holding(self) -> tuple[int, int]:
        """Return how many subscriptions it has, and how many items it holds."""
        return len(self.nodes), len(self.credit.tokens) if self.credit else 0

    def dismiss(self) -> None:
        """End it; its items are released."""
        self.end(DISMISSED)

    def end(self, problem: CallError) -> None:
        """Have it end."""
        self.problem = problem
        self.changed.set()


class OpenStreams:
    """Those of a face, which is a word of the program."""

    def __init__(self, face: str) -> None:
        self.face = face
        """The word of the face."""
        self._streams: dict[str, OpenStream] = {}
        self._counts: Counter[Jid] = Counter()

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._streams)

    def credit_of(self, address: Jid) -> Credit | None:
        """Return the credit of the stream with this address."""
        stream = self._streams.get(address)
        return None if stream is None else stream.credit

    def clients(self) -> Iterable[OpenStream]:
        """Return all of them."""
        return tuple(self._streams.values())

    def check(self, account: Jid, grpc: GrpcSettings) -> None:
        """Check that the account may open another one.

        Raises:
            CallError: there are too many, of all accounts or of this one.

        """
        if len(self) >= grpc.streams or self._counts[account] >= grpc.streams_per_account:
            raise CallError(
                StatusCode.RESOURCE_EXHAUSTED,
                f"There may be {grpc.streams} streams, and {grpc.streams_per_account} of one account.",
            )

    def enter(self, stream: OpenStream) -> None:
        """Count a stream."""
        self._streams[stream.address] = stream
        self._counts[stream.by.account] += 1

    def leave(self, stream: OpenStream) -> None:
        """Count a stream no more."""
        account = stream.by.account
        del self._streams[stream.address]
        self._counts[account] -= 1
        if not self._counts[account]:
            del self._counts[account]

    def end_unknown(self, holds: Callable[[Proven | None], bool]) -> None:
        """End the streams of users that were removed, or have another password."""
        for stream in self.clients():
            if not holds(stream.proven):
                stream.end(UNKNOWN_CALLER)


# A call: the account that makes it, and its actions on the queues.


class Backend(Protocol):
    """The interface of the face for calls."""

    broker: Broker
    grpc: GrpcSettings
    outstanding: Outstanding
    streams: OpenStreams
    known: dict[tuple[Principal, NodeName], Node]
    """The nodes of subscriptions as accounts have found them; another table from the next change of a node on."""
    service: Principal
    """The service itself."""

    is_stopping: bool

    def open_stream(self, call: Call) -> OpenStream:
        """Return a stream, counted until it leaves `streams`; raises CallError if there are too many."""

    def holds(self, proven: Proven | None) -> bool:
        """Return whether a caller that was proven so may still call."""

    def puller(self, by: Principal) -> Principal:
        """Return the principal under an address of its account that no other pull has."""

    def new_ids(self, count: int) -> list[ItemId]:
        """Return rising ids that no other process and no other call has made."""


OURS: Final = frozenset(
    {
        StatusCode.UNAVAILABLE,
        StatusCode.INTERNAL,
        StatusCode.RESOURCE_EXHAUSTED,
        StatusCode.DEADLINE_EXCEEDED,
    }
)
"""Codes of calls that were refused for a reason of the service, not of the caller."""


class Call:
    """One call of a principal. `left` is how many seconds the client waits at most, None for any time."""

    def __init__(
        self,
        by: Principal,
        backend: Backend,
        left: float | None = None,
        origin: Origin = Origin(),  # noqa: B008  # frozen
    ) -> None:
        self.by = by
        self.backend, self.left, self.origin = backend, left, origin
        self.size = 0
        """Bytes of the request; 0 if they are not known."""

    @property
    def account(self) -> Jid:
        """The account that makes the call."""
        return self.by.account

    def charge(self, problem: CallError) -> None:
        """Charge the refused call to its account, unless the service is the cause."""
        if problem.code not in OURS:
            self.backend.broker.admission.refused(self.by, self.size)

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
            node = wire.node_of(name, kind)
        except wire.BadNameError as problem:
            raise invalid(str(problem)) from None
        if self.may_use(wire.project_of(name)):
            return node
        if creates:
            raise CallError(StatusCode.PERMISSION_DENIED, NOT_AUTHORIZED)
        raise not_found(name)

    def may_use(self, project: str) -> bool:
        """Return whether the project exists for the account."""
        if project == wire.BRIDGE and not self.backend.grpc.bridge:
            return False
        return self.by.projects is None or project in self.by.projects

    async def ask(self, request: Request, resource: str = "", size: int = 0) -> Reply:
        """Have a request of so many bytes decided, and return the reply; `resource` is the name of its subject.

        Raises:
            CallError: it was refused.

        """
        reply = await self.backend.broker.handle_for(self.by, request, size)
        if isinstance(reply, Refused):
            node = None if isinstance(request, Create) else getattr(request, "node", None)
            raise await self.refusal(reply, node, resource)
        return reply

    async def refusal(self, refused: Refused, node: NodeName | None, resource: str) -> CallError:
        """Return the end of a call whose request was refused: resources that the account may not know of do not exist for it."""
        is_closed = refused.refusal is Refusal.CLOSED_NODE
        is_barred = is_closed or CODES[refused.refusal] is StatusCode.PERMISSION_DENIED
        if is_barred and node is not None:
            seen = await self.backend.broker.handle_for(
                self.by, Describe(self.by, node, manage=False, known=True)
            )
            if isinstance(seen, Refused):
                return not_found(resource)
            return CallError(StatusCode.PERMISSION_DENIED, NOT_AUTHORIZED)
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
                self.give_back(reply)

        broker = self.backend.broker
        await broker.admission.turn(self.by)
        end_wait = broker.take(request, answer, self.holds)
        try:
            reply = await taken
        except asyncio.CancelledError:
            if taken.done() and not taken.cancelled():
                self.give_back(taken.result())
            taken.cancel()
            end_wait()
            raise
        if not self.holds():  # it may have ended since the broker gave the items
            self.give_back(reply)
            raise UNKNOWN_CALLER
        if isinstance(reply, Refused):
            raise await self.refusal(reply, request.node, resource)
        return reply

    def holds(self) -> bool:
        """Return whether the login of the caller is still valid."""
        return self.backend.holds(self.origin.proven)

    def give_back(self, reply: Reply) -> None:
        """Release items that no caller waits for any more."""
        if isinstance(reply, Taken) and reply.items:
            locks = [LockName(item.id, item.token, item.holder) for item, _ in reply.items]
            self.release(reply.node, locks)

    def release(self, node: NodeName, locks: Sequence[LockName]) -> None:
        """Release items of the account without a failure; the result does not matter."""
        template = Settle(self.by, node, (), Verb.UNLOCK)
        for first in range(0, len(locks), MAX_NAMED):
            some = tuple(locks[first : first + MAX_NAMED])
            release = SettleEach(template, some)
            self.backend.broker.submit_for(self.by, release, lambda _reply: None)


# Messages that streams have delivered and not got back yet: the locks of this process's streams, by their tokens.
#
# A lock ends by an acknowledgement or a nack, over the stream or by any other call, or at its deadline. Then its stream has room
# again. One that is settled at another instance counts until its deadline.

GRACE: Final = 0.05
"""Seconds after a deadline until the lock counts as ended."""


class Credit:
    """How many messages and bytes a stream may have outstanding; None: any number. `on_room` is called when there is room again."""

    def __init__(self, messages: int | None, size: int | None, on_room: Callable[[], None]) -> None:
        self.messages, self.bytes, self._on_room = messages, size, on_room
        self._size = 0
        self.tokens: set[int] = set()
        """The locks that are outstanding."""

    def room(self, most: int) -> int:
        """Return how many more messages may be delivered, up to `most`."""
        if self.bytes is not None and self._size >= self.bytes:
            return 0
        return (
            most if self.messages is None else max(0, min(most, self.messages - len(self.tokens)))
        )

    @property
    def byte_room(self) -> int | None:
        """How many more bytes may be delivered; the last message may exceed it."""
        return None if self.bytes is None else max(0, self.bytes - self._size)

    def use(self, token: int, size: int) -> None:
        """Count a message."""
        self.tokens.add(token)
        self._size += size

    def free(self, token: int, size: int) -> None:
        """Count a message no more."""
        self.tokens.discard(token)
        self._size -= size
        self._on_room()


class _Lock(Struct):
    name: LockName
    credit: Credit
    size: int
    timer: TimerHandle


class Outstanding:
    """The locks of all streams of a process. `now` is the time by which deadlines are set."""

    def __init__(self, now: Callable[[], Millis]) -> None:
        self._now = now
        self._locks: dict[int, _Lock] = {}

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._locks)

    def add(self, item: Item, credit: Credit) -> None:
        """Note an item that a stream delivers."""
        assert item.deadline is not None
        credit.use(item.token, item.size)
        name, ends = LockName(item.id, item.token, item.holder), item.deadline
        self._locks[item.token] = _Lock(name, credit, item.size, self._at(ends, item.token))

    def settled(self, token: int) -> None:
        """Note that a lock has ended."""
        lock = self._locks.pop(token, None)
        if lock is not None:
            lock.timer.cancel()
            lock.credit.free(token, lock.size)

    def recalled(self, credit: Credit, ids: Collection[ItemId]) -> None:
        """Note that the service has ended locks of a stream."""
        for token in [token for token in credit.tokens if self._locks[token].name.id in ids]:
            self.settled(token)

    def extended(self, token: int, deadline: Millis) -> None:
        """Note that a lock ends at another time."""
        lock = self._locks.get(token)
        if lock is not None:
            lock.timer.cancel()
            lock.timer = self._at(deadline, token)

    def names(self, credit: Credit) -> list[LockName]:
        """Return the locks of a stream."""
        return [self._locks[token].name for token in credit.tokens]

    def leave(self, credit: Credit) -> None:
        """Forget a stream that has ended; its locks stay until their deadlines."""
        for token in credit.tokens:
            self._locks.pop(token).timer.cancel()
        credit.tokens.clear()

    def _at(self, deadline: Millis, token: int) -> TimerHandle:
        span = max(0.0, (deadline - self._now()) / 1000) + GRACE
        return asyncio.get_running_loop().call_later(span, self.settled, token)


# The services of a binding, each with a row for every rpc.

if TYPE_CHECKING:
    Unary = Callable[[Call, Any], Awaitable[Any]]
    Streaming = Callable[[Call, AsyncIterator[Any]], AsyncIterator[Any]]


class Service(Struct, frozen=True):
    """The rpcs of a service, by their names; those in `waits` may wait for a message, those in `publishes` may have large ones."""

    name: str
    unary: Mapping[str, Unary]
    streaming: Mapping[str, Streaming] = {}
    waits: frozenset[str] = frozenset()
    publishes: frozenset[str] = frozenset()


def refused(what: str) -> Unary:
    """Return the row of an rpc that is not supported."""

    async def refuse(_call: Call, _request: Any) -> None:  # noqa: ANN401  # as the other rows
        raise unimplemented(what)

    return refuse
