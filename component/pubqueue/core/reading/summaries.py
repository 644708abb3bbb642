"""Summaries for operators of queues: their rights, the workers of a queue, one item, the service itself."""

from __future__ import annotations

from enum import Enum, auto, unique
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pubqueue.core.limits.quotas import USUAL

if TYPE_CHECKING:
    from pubqueue.core.limits.limits import Limit
    from pubqueue.core.limits.quotas import Holding, Quota
    from pubqueue.core.model import Item, ItemId, Jid, Millis, Node, NodeName, Subscription


@unique
class Power(Enum):
    """A right of some accounts only."""

    __hash__ = object.__hash__  # an enumeration's own is a call in Python

    SERVICE = auto()
    """Administer the service."""
    NODES = auto()
    """Manage a node at least."""
    CREATE = auto()
    """Create nodes, and one of the two above."""


class Powers(Struct, frozen=True, gc=False):
    """The principal's rights, and the first of the nodes that it manages, by name; `more` follow."""

    held: tuple[Power, ...]
    nodes: tuple[Node, ...] = ()
    more: bool = False


class Worker(Struct, frozen=True, gc=False):
    """A subscription to a queue, and the first of the items that it holds, the oldest first.

    `holds` is None if it holds so many that they were not counted.
    """

    subscription: Subscription
    holds: tuple[ItemId, ...] | None


class WorkerPage(Struct, frozen=True, gc=False):
    """Subscribers of a node, by JID; `more` follow."""

    node: Node
    workers: tuple[Worker, ...]
    more: bool


class Peeked(Struct, frozen=True, gc=False):
    """One item of a node, with its payload."""

    node: NodeName
    item: Item
    payload: bytes


class ReasonCount(Struct, frozen=True, gc=False):
    """The number of items that have died of this, and when the first and the last did. In the reason `*` stands for the parts that vary."""

    reason: str
    count: int
    first: Millis
    last: Millis


class ReasonPage(Struct, frozen=True, gc=False):
    """Reasons of deaths in a node, the most frequent first; `more` follow. `whole`: all dead items were examined."""

    node: NodeName
    reasons: tuple[ReasonCount, ...]
    looked: int
    more: bool
    whole: bool


class Freed(Struct, frozen=True, gc=False):
    """The number of locks of the node that have ended."""

    node: NodeName
    count: int


class About(Struct, frozen=True, gc=False):
    """The process: its version, its store, and since when it runs.

    `ahead` is how many milliseconds the clock of the store is ahead of this machine's, None if a store has no clock of its own.
    """

    version: str = ""
    store: str = ""
    since: Millis | None = None
    ahead: int | None = None


UNKNOWN: Final = About()


class Round(Struct, frozen=True, gc=False):
    """How many seconds ago a task of the service last completed a round; it is `late` if that is longer than allowed."""

    task: str
    ago: float
    late: bool


class Fullness(Struct, frozen=True, gc=False):
    """How much of its limits an account uses: the largest share, and of which limit."""

    share: float
    what: str
    holding: Holding


class Kept(Struct, frozen=True, gc=False):
    """The total storage, by how many accounts; how many of these are near their limits, and the nearest, first."""

    accounts: int = 0
    items: int = 0
    bytes: int = 0
    near: int = 0
    nearest: tuple[Fullness, ...] = ()


class ServiceState(Struct, frozen=True, gc=False):
    """The service at this moment: its nodes, the limits of accounts, the state of its tasks, and its storage."""

    about: About
    now: Millis
    nodes: int
    limits: tuple[Limit, ...] = ()
    rounds: tuple[Round, ...] = ()
    quota: Quota = USUAL
    kept: Kept = Kept()


class ClientState(Struct, frozen=True, gc=False):
    """A connection of a client: its address, the word of its face, its peer, its start, and what it has.

    `private` means that it has TLS. `holds` are items that are locked to it, by whatever subscription. `nodes` are those that it
    is subscribed to, in their order by name, each once.
    """

    address: Jid
    face: str
    peer: str
    since: Millis
    private: bool
    subscriptions: int
    holds: int
    nodes: tuple[NodeName, ...] = ()


class ConnectionPage(Struct, frozen=True, gc=False):
    """Connections by address, and how many there are in total; `more` follow."""

    clients: tuple[ClientState, ...]
    total: int
    now: Millis
    more: bool


class ConnectionEnded(Struct, frozen=True, gc=False):
    """The connection of an address ends now; it was not here unless `is_here`."""

    address: Jid
    is_here: bool


Reply = (
    Powers
    | WorkerPage
    | Peeked
    | ReasonPage
    | Freed
    | ServiceState
    | ConnectionPage
    | ConnectionEnded
)
