"""The replies to requests, and the pages they come in (as in XEP-0059)."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003  # msgspec reads it
from enum import Enum, auto, unique
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from pubqueue.model import records
from pubqueue.model.records import USUAL

if TYPE_CHECKING:
    from pubqueue.model.entities import (
        Affiliation,
        Item,
        ItemId,
        Jid,
        Millis,
        Node,
        NodeName,
        Subscription,
    )
    from pubqueue.model.limits import Limit
    from pubqueue.model.records import Event, Holding, Quota


# Summaries for operators of queues: their rights, the workers of a queue, one item, the service itself.


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


class History(Struct, frozen=True, gc=False):
    """What happened to an item of a node, in order; more may follow the event `through`.

    `item` is None once it has left the node, and is not kept. Steps with the number 0 are in no event log: the item itself records them.
    `result` is the reply to the item, with its payload, for who may read that.
    """

    node: Node
    id: ItemId
    item: Item | None
    steps: tuple[EventEntry, ...]
    through: int
    more: bool
    result: tuple[Item, bytes] | None = None


class ReasonCount(Struct, frozen=True, gc=False):
    """The number of items that have died of this, and when the first and the last did. In the reason `*` stands for the parts that vary."""

    reason: str
    count: int
    first: Millis
    last: Millis


class DeathCount(Struct, frozen=True, gc=False):
    """Dead items of a node that died of one reason (as in `ReasonCount`), and of one last holder's account if they are counted by worker."""

    node: NodeName
    reason: str
    worker: Jid | None
    count: int
    first: Millis
    last: Millis


class DeathPage(Struct, frozen=True, gc=False):
    """Dead items of all nodes in groups, in the requested order, of `total` dead items; `more` groups follow the first `through`.

    `whole`: all dead items were examined.
    """

    groups: tuple[DeathCount, ...]
    total: int
    nodes: int
    through: int
    more: bool
    whole: bool


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


class Quieted(Struct, frozen=True, gc=False):
    """A worker is quiet, or gets items again; and how many it still holds.

    With `asking` it is a connection of this process that asks for items itself.
    """

    node: NodeName
    holds: int
    asking: bool = False


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
    quiet: bool = False
    """Whether an operator has it ask for no further items."""


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


class Found(Struct, frozen=True, gc=False):
    """What a search has found: a page of the list with these rows, and where the next answer begins if there are `more`.

    It is `whole` unless rows of a list that was to be sorted were not looked at, because there are too many.
    """

    page: Any
    through: tuple[float, str] | str
    more: bool
    whole: bool = True


SummaryReply = (
    Powers
    | WorkerPage
    | Peeked
    | History
    | ReasonPage
    | DeathPage
    | Freed
    | Quieted
    | ServiceState
    | ConnectionPage
    | ConnectionEnded
    | Found
)


# Which part of a long list is requested, and how the part that is sent is described (as in XEP-0059).
#
# A list is always sent in parts: no answer grows with the size of the store.

MAX_ENTRIES: Final = 1_000
"""Maximum number of entries in one answer; a face with smaller answers cuts further."""

MAX_BYTES: Final = 1 << 20
"""Maximum bytes of payload in one answer, which contains one item however large. A face may set a lower limit."""


class Page(Struct, frozen=True, gc=False):
    """Up to `most` entries after the entry `after`; with `most` 0 only their number.

    With `before` they are the last ones before that entry, or of all if it is empty.

    An entry is identified by its name: an item by its id, a node by its name, an account by its
    JID.
    """

    after: str | None = None
    most: int | None = None
    before: str | None = None


class Part(Struct, frozen=True, gc=False):
    """Which part of a list is sent: whether `more` follow, how many there are in all, whether it is the beginning.

    `total` may be approximate, and is None if counting would cost too much. `asked` means that the
    request was for a part, so that the answer has to identify it. `backward`: it was read from its
    end, so that a face without room for all of it sends the last entries.
    """

    more: bool = False
    total: int | None = None
    begins: bool = True
    asked: bool = False
    backward: bool = False


WHOLE: Final = Part()


def room_of(page: Page | None, most: int = MAX_ENTRIES) -> int:
    """Return how many entries the answer may have."""
    return most if page is None or page.most is None else min(page.most, most)


def part_of(page: Page | None, *, more: bool, total: int | None) -> Part:
    """Return the description of a part that begins where `page` says."""
    begins = page is None or (page.after is None and not page.before)
    return Part(more, total, begins, asked=page is not None)


# Replies about nodes, their affiliations and their subscriptions.


class Emptied(Struct, frozen=True, gc=False):
    """The node has no items any more; this is how many it had."""

    node: NodeName
    items: int


class Subscribed(Struct, frozen=True, gc=False):
    """The subscription as it is now; on a queue node with its window (XEP-0254 example 3).

    `configured` means that options were requested: they are shown as granted.
    """

    subscription: Subscription
    queueing: bool
    configured: bool = False
    wants_features: bool = False
    """Whether the level of its deliveries depends on what its client can do."""


class Unsubscribed(Struct, frozen=True, gc=False):
    """The subscription as it was, which has ended (XEP-0060 6.2.2)."""

    subscription: Subscription


class RostersWanted(Struct, frozen=True, gc=False):
    """The principal's entry in the rosters of these owners has to be looked up; then the request is repeated."""

    owners: tuple[Jid, ...]


class DefaultOptions(Struct, frozen=True, gc=False):
    """The options of a subscription by default (XEP-0060 6.4), at the service or at `node`.

    `limit` is the largest window of a queue, if one has to be requested.
    """

    node: NodeName | None
    temporary: bool = False
    limit: int | None = None


class Created(Struct, frozen=True, gc=False):
    """The node exists, and the principal owns it; `missing` is its dead-letter node if that does not exist."""

    node: NodeName
    missing: str = ""


class Difference(Struct, frozen=True, gc=False):
    """A setting, or an account, that is stored differently from its declaration; and why it stays, if it does."""

    name: str
    stored: str
    declared: str
    reason: str = ""


class Declared(Struct, frozen=True, gc=False):
    """The declared node exists: `made`, or with these differences changed to the declaration, or `kept`.

    `unnamed` are accounts that have an affiliation with the node though nothing was declared about them.
    """

    node: NodeName
    made: bool
    changed: tuple[Difference, ...] = ()
    kept: tuple[Difference, ...] = ()
    unnamed: tuple[Jid, ...] = ()


class Described(Struct, frozen=True, gc=False):
    """A node, for an owner or for discovery, or with its items.

    `depth` is the number of its items, for a principal that may know it. `may_publish` and `may_subscribe` are about the
    principal, as if it were a subscriber where that matters.
    """

    node: Node
    owners: tuple[Jid, ...] = ()
    publishers: tuple[Jid, ...] = ()
    depth: int | None = None
    may_publish: bool = True
    may_subscribe: bool = True


class Listed(Struct, frozen=True, gc=False):
    """Names with titles: nodes of the service, or items of a node."""

    entries: tuple[tuple[str, str], ...]
    node: NodeName | None = None
    part: Part = WHOLE


class Affiliations(Struct, frozen=True, gc=False):
    """The affiliations of the node (XEP-0060 8.9.1)."""

    node: NodeName
    entries: tuple[tuple[Jid, Affiliation], ...]
    part: Part = WHOLE


class NodeSubscriptions(Struct, frozen=True, gc=False):
    """Subscriptions to the node, for its owners: those that are active (XEP-0060 8.8.1), or pending."""

    node: NodeName
    entries: tuple[Subscription, ...]
    part: Part = WHOLE


class MyAffiliations(Struct, frozen=True, gc=False):
    """The principal's affiliations (XEP-0060 5.7): with all nodes, or with `node`."""

    entries: tuple[tuple[NodeName, Affiliation], ...]
    node: NodeName | None = None
    part: Part = WHOLE


class MySubscriptions(Struct, frozen=True, gc=False):
    """The subscriptions of the principal's JIDs (XEP-0060 5.6): all of them, or those to `node`."""

    entries: tuple[Subscription, ...]
    node: NodeName | None = None
    part: Part = WHOLE


class SubscriberPage(Struct, frozen=True, gc=False):
    """Some of the subscribers of a node; there may be more after `after`, None at the end.

    `subids` are the ids of subscribers that subscribe several times.
    """

    jids: tuple[Jid, ...]
    after: Jid | None
    subids: Mapping[Jid, tuple[str, ...]] = {}


class Unnotified(Struct, frozen=True, gc=False):
    """Deleted nodes that still have subscribers to notify; there may be more after `after`, None at the end."""

    nodes: tuple[NodeName, ...]
    after: int | None


NodeReply = (
    Emptied
    | Subscribed
    | Unsubscribed
    | RostersWanted
    | DefaultOptions
    | Created
    | Difference
    | Declared
    | Described
    | Listed
    | Affiliations
    | NodeSubscriptions
    | MyAffiliations
    | MySubscriptions
    | SubscriberPage
    | Unnotified
)


# What can be read of a queue: pages of its event log, its items, its nodes.


class EventEntry(Struct, frozen=True, gc=False):
    """An event in the log: its number, which only rises, and its time."""

    seq: int
    at: Millis
    event: Event


class EventPage(Struct, frozen=True, gc=False):
    """Events in the order of their numbers; all of them up to `through`.

    `oldest` and `newest` are the ends of the whole log; 0 before the first event.
    """

    entries: tuple[EventEntry, ...]
    oldest: int
    newest: int
    through: int
    more: bool


class ItemEntry(Struct, frozen=True, gc=False):
    """An item in a read: with the size of its payload, and the payload if it was requested."""

    item: Item
    size: int
    payload: bytes | None = None


class ItemPage(Struct, frozen=True, gc=False):
    """Items of a node in the order of their numbers, or of their dead letters if `dead`.

    `done` is the number of items that the node keeps although they are done; they are in pages of their own.
    """

    node: NodeName
    entries: tuple[ItemEntry, ...]
    newest: int
    through: int
    more: bool
    dead: bool = False
    done: int = 0


class NodeEntry(Struct, frozen=True, gc=False):
    """A node, its items by state, and its workers. `oldest` is when its oldest waiting item was published."""

    node: Node
    queued: int
    locked: int
    delayed: int
    dead: int
    window_free: int
    oldest: Millis | None = None
    owned: bool = False
    rate: float = 0.0
    """Items done per minute recently, as far as this process knows."""
    failing: float = 0.0
    """Items that failed per minute recently, as far as this process knows."""
    too_large: int = 0
    """Waiting items that no protocol of a connected worker can carry, of the first 20,000."""
    held: int = 0
    """Items that wait for a signal, or for a time."""
    oldest_held: Millis | None = None
    """When the oldest of these was published."""


class SurveyRow(Struct, frozen=True, gc=False):
    """A node with its problems, the worst first."""

    entry: NodeEntry
    problems: tuple[str, ...]


class Totals(Struct, frozen=True, gc=False):
    """Totals: nodes, queues, `troubled` queues, and items of queues; `problems` with the number of queues each."""

    queues: int = 0
    plain: int = 0
    troubled: int = 0
    queued: int = 0
    locked: int = 0
    delayed: int = 0
    dead: int = 0
    rate: float = 0.0
    problems: tuple[tuple[str, int], ...] = ()
    held: int = 0


class Survey(Struct, frozen=True, gc=False):
    """Nodes in the requested order, and the totals; with `whole` all nodes were looked at."""

    rows: tuple[SurveyRow, ...]
    totals: Totals
    more: bool = False
    whole: bool = True
    now: Millis | None = None


class DefinitionEntry(Struct, frozen=True, gc=False):
    """What defines a node: its settings that differ from the defaults of its kind, as text by their names, and its affiliations.

    A state, such as `paused`, is among the settings if the node is in it. If it is not `whole`, the node has more affiliations than an
    answer has room for, and none of them is here.
    """

    node: NodeName
    items: int
    settings: tuple[tuple[str, str], ...]
    affiliations: tuple[tuple[Jid, Affiliation], ...]
    whole: bool = True


class DefinitionPage(Struct, frozen=True, gc=False):
    """Definitions of nodes by name; `more` may follow `through`."""

    entries: tuple[DefinitionEntry, ...]
    more: bool
    through: NodeName | None


class NodePage(Struct, frozen=True, gc=False):
    """Nodes by name, as of `now`; `more` may follow `through`. Their settings are for owners only."""

    entries: tuple[NodeEntry, ...]
    more: bool
    now: Millis
    through: NodeName | None = None


class Trimmed(Struct, frozen=True, gc=False):
    """The log is shorter; `more` may be removed."""

    more: bool


class NewerItems(Struct, frozen=True, gc=False):
    """Items of a plain node with their payloads, by number; `through` is the number to continue from, and `more` may follow.

    `newest` is the highest number of an item in the node. If the item from which it was read is not `kept` any more,
    others after it may have been removed as well before they were read.
    """

    node: Node
    items: tuple[tuple[Item, bytes], ...]
    through: int
    newest: int
    more: bool = False
    kept: bool = True


class Newest(Struct, frozen=True, gc=False):
    """The highest number of an item in each node, 0 if there is none."""

    numbers: tuple[tuple[NodeName, int], ...]


Pages = NewerItems | Newest
PageReply = (
    Pages
    | EventPage
    | ItemPage
    | NodePage
    | DefinitionPage
    | Survey
    | Trimmed
    | SummaryReply
    | records.SamplePage
)
