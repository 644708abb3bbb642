"""The clients that are connected, and what observers get to see of requests, decisions and throughput."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from enum import StrEnum, unique
from heapq import nsmallest
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

import structlog
from msgspec import Struct

from pubqueue.model.changes import GiveUp, Release, RemoveItem
from pubqueue.model.entities import Jid, Millis, NodeName, account_of
from pubqueue.model.replies import ClientState
from pubqueue.rules.expire import Expire
from pubqueue.rules.settle import Outcome, Settle, Verb, finishes

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pubqueue.engine.connections import Connections, GrpcCalls, HttpRequests
    from pubqueue.model.decision import Decision, Reply, Request
    from pubqueue.model.notices import Notice
    from pubqueue.rules.inspect import ReadConnections


# The observers of the service: one list, called after each commit. A fault of one is logged, and affects no request.

log = structlog.get_logger(__name__)


NOTHING: Final[frozenset[type]] = frozenset()


class Observer:
    """Is called on the event loop with each event that it asks for; it must be quick."""

    fault = "watch.failed"
    """The log event of a fault in it."""
    asks: frozenset[type] | None = None
    """The kinds of requests and changes of which one has to be in a batch; None for every batch."""

    def committed(
        self,
        requests: Sequence[Request],
        decisions: Sequence[Decision],
        deliveries: Sequence[Notice],
        took: Took,
    ) -> None:
        """Observe a batch: its requests with their decisions, in order, and its deliveries.

        All requesters were answered before.
        """

    def answered(self, reply: Reply) -> None:
        """Note the answer to a request that only reads."""


One = TypeVar("One", bound=Observer)


class Observers(Generic[One]):
    """Calls each of them, in their order."""

    def __init__(self, observers: Iterable[One] = ()) -> None:
        self._observers = tuple(observers)

    def __iter__(self) -> Iterator[One]:
        """Return them in their order."""
        return iter(self._observers)

    def committed(
        self,
        requests: Sequence[Request],
        decisions: Sequence[Decision],
        deliveries: Sequence[Notice],
        took: Took,
    ) -> None:
        """Pass a batch on to those that ask for something in it."""
        changes = {type(change) for decision in decisions for change in decision.changes}
        kinds = changes.union(map(type, requests))
        self._each(
            lambda one: one.committed(requests, decisions, deliveries, took),
            [one for one in self._observers if one.asks is None or not one.asks.isdisjoint(kinds)],
            requests=len(decisions),
        )

    def answered(self, reply: Reply) -> None:
        """Pass on an answer to a request that only reads."""
        self._each(lambda one: one.answered(reply), self, reply=type(reply).__name__)

    def _each(self, call: Callable[[One], None], those: Iterable[One], **facts: object) -> None:
        for one in those:
            try:
                call(one)
            except Exception:  # the boundary between the work and its observers
                log.exception(one.fault, **facts)


class StoreChanges(Observer):
    """Counts what may have changed in the store: batches that have changed something, and looks that found commits of other processes.

    A request of one of the kinds `but` changes nothing that counts.
    """

    fault = "store_changes.failed"

    def __init__(self, but: frozenset[type]) -> None:
        self._but = but
        self.count = 0

    def committed(
        self,
        requests: Sequence[Request],
        decisions: Sequence[Decision],
        deliveries: Sequence[Notice],
        took: Took,  # noqa: ARG002
    ) -> None:
        """Count a batch that has changed something."""
        if deliveries:
            self.count += 1
            return
        for asked, decision in zip(requests, decisions, strict=True):  # without a call
            if decision.changes and type(asked) not in self._but:
                self.count += 1
                return


# How many items of each node were done recently, and how many failed: only the commits of this process, kept in memory.
#
# The event log is not counted for it, because few nodes keep one and it may be long. So another process on the same store does
# not know these figures, and after a start they begin at 0.

SLOT: Final = 10_000
"""Milliseconds that are counted together."""

SLOTS: Final = 30
"""The number of slots that are added up: five minutes."""

MAX_NODES: Final = 10_000
"""Up to how many nodes are counted: those in which work was done last."""

MINUTE: Final = 60_000

Slots = deque[list[int]]
"""Numbers of slots with counts, the oldest first."""


class RatesObserver(Observer):
    """Counts commits, by this clock."""

    fault = "rates.failed"

    def __init__(self, rates: Rates, clock: Callable[[], Millis]) -> None:
        self._rates, self._clock = rates, clock

    def committed(
        self,
        requests: Sequence[Request],
        decisions: Sequence[Decision],
        deliveries: Sequence[Notice],  # noqa: ARG002  # only what was done counts
        took: Took,  # noqa: ARG002
    ) -> None:
        """Count finished work."""
        self._rates.note(self._clock(), requests, decisions)


class Rates:
    """Counts items that their holders have retracted, and locks that ended in a failure."""

    def __init__(self) -> None:
        self._done: OrderedDict[NodeName, Slots] = OrderedDict()
        self._failed: OrderedDict[NodeName, Slots] = OrderedDict()
        self._since: int | None = None

    def note(self, now: Millis, requests: Iterable[Request], decisions: Sequence[Decision]) -> None:
        """Count what these decisions have finished; they are committed."""
        if self._since is None:
            self._since = now
        done: defaultdict[NodeName, int] = defaultdict(int)
        failed: defaultdict[NodeName, int] = defaultdict(int)
        for request, decision in zip(requests, decisions, strict=True):
            if type(request) is Settle and request.verb is Verb.RETRACT:
                for change in decision.changes:
                    if type(change) is RemoveItem and finishes(request, change.item):
                        done[change.item.node] += 1
            elif type(request) is Expire or (
                type(request) is Settle and request.outcome is not Outcome.RELEASE
            ):
                for node in _of_failures(decision):
                    failed[node] += 1
        for kept, counts in ((self._done, done), (self._failed, failed)):
            for node, count in counts.items():
                _add(kept, node, now // SLOT, count)

    def per_minute(self, node: NodeName, now: Millis) -> float:
        """Return how many items of the node were done in a minute, over the last five, or since the first batch."""
        return self._of_late(self._done, node, now)

    def failed_per_minute(self, node: NodeName, now: Millis) -> float:
        """Return how many locks of the node ended in a failure in a minute, over the same time."""
        return self._of_late(self._failed, node, now)

    def _of_late(self, counts: OrderedDict[NodeName, Slots], node: NodeName, now: Millis) -> float:
        if self._since is None:
            return 0.0
        begin = max((now // SLOT - SLOTS) * SLOT, self._since)
        known = list(counts.get(node, ()))  # at once: the reader is in another thread
        count = sum(n for slot, n in known if slot >= now // SLOT - SLOTS)
        return count * MINUTE / max(now - begin, MINUTE)


def _of_failures(decision: Decision) -> Iterator[NodeName]:
    """Return the node of each lock that has ended in a failure."""
    for change in decision.changes:
        if isinstance(change, GiveUp | Release) and change.failed > change.item.failed:
            yield change.item.node


def _add(counts: OrderedDict[NodeName, Slots], node: NodeName, slot: int, count: int) -> None:
    """Add this many to the count of a node."""
    slots = counts.get(node)
    if slots is None:
        slots = counts[node] = deque(maxlen=SLOTS + 1)
        if len(counts) > MAX_NODES:
            counts.popitem(last=False)
    counts.move_to_end(node)
    if slots and slots[-1][0] >= slot:
        slots[-1][1] += count
    else:
        slots.append([slot, count])


# The clients that are connected to this process, over any protocol: their accounts, addresses and times.
#
# Each listener attaches itself, and each connection reports its state on request: nothing is counted in advance. A
# list is read in other threads too, so values that may change meanwhile are copied in one step.


class Client(Protocol):
    """A connection of a client that has logged in."""

    address: str
    """That of the client, `name@service/word.INSTANCE.NAME`."""
    peer: str
    quiet: bool | None
    """Whether an operator has it ask for no further items; None if it asks for none itself: then its subscriptions can be quiet."""

    @property
    def age(self) -> float:
        """Seconds since it was accepted."""

    @property
    def is_private(self) -> bool:
        """Whether it has TLS."""

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that it is subscribed to, each once, by name."""

    def holding(self) -> tuple[int, int]:
        """Return how many subscriptions it has, and how many items it holds."""

    def dismiss(self) -> None:
        """End it, in the words of its protocol; its items are released."""


class Source(Protocol):
    """Listens for clients of a face."""

    @property
    def face(self) -> str:
        """The word of the face."""

    def clients(self) -> Iterable[Client]:
        """Return those that have logged in."""


class Clients:
    """Those of all faces of a process."""

    def __init__(self) -> None:
        self._sources: list[Source] = []

    def attach(self, source: Source) -> None:
        """Include the clients of this one too."""
        self._sources.append(source)

    def page(
        self, asked: ReadConnections, most: int, now: Millis
    ) -> tuple[tuple[ClientState, ...], int]:
        """Return the next of the requested ones by address; and how many there are of them in total."""
        everybody = [
            (Jid(one.address), source.face, one)
            for source in self._sources
            for one in source.clients()
            if asked.account is None or account_of(Jid(one.address)) == asked.account
            if asked.node is None or asked.node in one.nodes
        ]
        rest = (one for one in everybody if asked.after is None or one[0] > asked.after)
        page = nsmallest(most, rest, key=lambda one: one[0])
        return tuple(_state(face, one, now) for _, face, one in page), len(everybody)

    def asking(self, address: Jid, node: NodeName) -> int | None:
        """Return how many items the client of this address holds, if it asks for items of the node itself; otherwise None."""
        one = self._find(address)
        if one is None or one.quiet is None or node not in one.nodes:
            return None
        return one.holding()[1]

    def set_quiet(self, address: Jid, *, quiet: bool) -> None:
        """Have a client that asks for items itself ask for no further ones, or again."""
        if (found := self._find(address)) is not None:
            found.quiet = quiet

    def is_here(self, address: Jid) -> bool:
        """Return whether a client has this address."""
        return self._find(address) is not None

    def end(self, address: Jid) -> None:
        """End the connection of this address, if it still exists."""
        if (found := self._find(address)) is not None:
            found.dismiss()

    def _find(self, address: Jid) -> Client | None:
        every = (one for source in self._sources for one in source.clients())
        return next((one for one in every if one.address == address), None)


def _state(face: str, one: Client, now: Millis) -> ClientState:
    subscriptions, holds = one.holding()
    since = Millis(now - round(one.age * 1000))
    about = Jid(one.address), face, one.peer, since, one.is_private
    nodes = tuple(map(NodeName, one.nodes))
    return ClientState(*about, subscriptions, holds, nodes, quiet=one.quiet is True)


# What observers get in addition to requests and decisions: phases, the duration of a batch, the amount of waiting work.


@unique
class Phase(StrEnum):
    """The phase of this process."""

    STARTING = "starting"
    """It has not reached its store or its server yet."""
    WAITING = "waiting"
    """Another instance has the place at the server; this one takes over when that is gone."""
    AT_WORK = "at work"
    STOPPING = "stopping"


class Took(Struct, frozen=True, gc=False):
    """How long a batch took, in seconds: deciding (with loading and dispatch), and from there until its commit was durable."""

    deciding: float
    committing: float


class Waiting(Struct, frozen=True, gc=False):
    """The waiting work: requests for a batch, requests that only read, bytes of notices for crowds, takes for an item."""

    requests: int
    reads: int
    news: int
    takes: int = 0


class MessageCounts(Struct, gc=False):
    """How many steps of carried messages were done, by level, and how many were refused, by the kind of the event."""

    taken: Counter[str]
    refused: Counter[str]


class Traffic(Struct, gc=False):
    """The traffic of a face: bytes, and how often its server has accepted it."""

    bytes_in: int = 0
    bytes_out: int = 0
    sessions: int = 0
    connections: Connections | None = None
    """The connections of its clients, if it listens for them."""
    requests: HttpRequests | None = None
    """Its requests over HTTP, if it answers any."""
    pushes: dict[str, int] | None = None
    """How many of its pushes ended with which outcome, if it pushes items; the outcomes are words of the program."""
    messages: MessageCounts | None = None
    """The messages that were carried to it (urn:xmpp:qos), if it takes any."""
    calls: GrpcCalls | None = None
    """Its gRPC calls, if it answers any."""
    repeated: int = 0
    """How many requests that carry deliveries were sent again (urn:xmpp:qos)."""
    given_up: int = 0
    """How many items were freed because their worker left the deliveries unanswered."""
