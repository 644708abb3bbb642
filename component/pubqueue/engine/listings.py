"""What is read of a store in pages: each kind defines one row of its page.

A page includes what is written by then, so the rows of a batch are written before it is read.
"""

from __future__ import annotations

from typing import Any, Final, Generic, TypeVar

from msgspec import Struct

from pubqueue.engine.rows import AffiliationRow, Conflict
from pubqueue.model import records
from pubqueue.model.entities import (
    NO_TIME,
    AccessModel,
    Affiliation,
    Draft,
    Headers,
    Item,
    ItemId,
    Jid,
    Millis,
    Node,
    NodeName,
    State,
    Subscription,
    SubscriptionState,
)
from pubqueue.model.replies import EventEntry, ItemEntry, NodeEntry
from pubqueue.model.schedules import Schedule
from pubqueue.model.transactions import Attempt, Orphan, Record, TakenId, WinnerRow
from pubqueue.model.waits import Wait  # noqa: TC001  # a field of a struct

R = TypeVar("R")

UNBOUNDED: Final = 1 << 62

ANY_SIZE: Final = (1 << 31) - 1
"""More bytes than any payload has."""


class Listing(Struct, Generic[R], frozen=True, gc=False):
    """A query whose result is rows of one kind, in one order. `after` and `limit` are passed with it."""


class Total(Listing[int], frozen=True, gc=False):
    """One row: how many rows a listing has in all; of nodes, of accounts, of subscriptions and of held items."""

    of: Listing[Any]


class Backward(Listing[R], frozen=True, gc=False):
    """The rows of a listing before `after` (None: all), the nearest first; of listings that people page through."""

    of: Listing[R]


class Nodes(Listing[Node], frozen=True, gc=False):
    """Every node, or those with this access model, by name; `after` is a name.

    Of those with an access model: only those whose payloads are of `type`, or of none of the types
    `but`.
    """

    access: AccessModel | None = None
    type: str | None = None
    but: tuple[str, ...] = ()


class NodesNamed(Listing[Node], frozen=True, gc=False):
    """Every node whose name begins with `prefix` and is longer, or those with this access model, by name; `after` is a name.

    A prefix ends with a character of ASCII.
    """

    prefix: str
    access: AccessModel | None = None


class NodesPushed(Listing[Node], frozen=True, gc=False):
    """Every node with the label `labels.PUSHED`, by name; `after` is a name. A few others may be among them."""


Place = int | str
"""The position of a look around; only the store knows its meaning."""


class Look(Struct, frozen=True, gc=False):
    """A place that was examined for items to deliver; `node` if there is a queue that may have some."""

    place: Place
    node: NodeName | None


class ReadyNodes(Listing[Look], frozen=True, gc=False):
    """Queues that have both something ready and a free window, and places at which there was none.

    A row for each place looked at, so that `limit` bounds the work; `after` is the last one's `place`.
    """


class FreeSubscriptions(Listing[Subscription], frozen=True, gc=False):
    """The node's available subscriptions with less in flight than they take.

    Their order is the share of their window that is in flight, then when they were served, then the JID; `after` is
    these three.
    """

    node: NodeName


class AffiliationsOf(Listing[AffiliationRow], frozen=True, gc=False):
    """Every account with an affiliation to the node, or with one of these, by JID; `after` is a JID."""

    node: NodeName
    roles: tuple[Affiliation, ...] | None = None


class AffiliationsAmong(Listing[AffiliationRow], frozen=True, gc=False):
    """The affiliations with some nodes, the first `each` of every one by JID; by node and JID, from the beginning."""

    nodes: tuple[NodeName, ...]
    each: int


class NodesOfAccount(Listing[tuple[Node, Affiliation]], frozen=True, gc=False):
    """Every node to which the account has an affiliation, or one of these, by name; `after` is a name.

    `access`: only those with one of these access models. `types`: only those whose payloads are of
    one of these types; `but`: of none of these.
    """

    account: Jid
    roles: tuple[Affiliation, ...] | None = None
    access: tuple[AccessModel, ...] | None = None
    types: tuple[str, ...] | None = None
    but: tuple[str, ...] = ()


class NodesOfAccountNamed(Listing[tuple[Node, Affiliation]], frozen=True, gc=False):
    """Every such node to which the account has an affiliation, by name; `after` is a name."""

    account: Jid
    prefix: str


class SubscriptionsOfAccount(Listing[Subscription], frozen=True, gc=False):
    """Subscriptions of the account's JIDs, to any node or to one, by node and JID, of which `after` is a pair."""

    account: Jid
    node: NodeName | None = None


class Subscribers(Listing[Jid], frozen=True, gc=False):
    """The subscribers of the node that can be notified, by JID; `after` is a JID."""

    node: NodeName


class SubscriptionsOf(Listing[Subscription], frozen=True, gc=False):
    """Subscriptions to the node with this state, by JID; `after` is a JID."""

    node: NodeName
    state: SubscriptionState = SubscriptionState.SUBSCRIBED


class SeveralOf(Listing[Subscription], frozen=True, gc=False):
    """The subscribers of the node that subscribe several times, by JID up to `through`; `after` is a JID."""

    node: NodeName
    through: Jid


class SubscriberRoles(Listing[tuple[Jid, Affiliation, SubscriptionState]], frozen=True, gc=False):
    """All subscribers of the node, by JID, including pending ones: the account's affiliation, and the state of the subscription."""

    node: NodeName


class Reviews(Listing[NodeName], frozen=True, gc=False):
    """Nodes whose subscribers are to be reviewed, by name; `after` is a name."""


class NodeSums(Listing[tuple[int, records.Holding]], frozen=True, gc=False):
    """Totals of the nodes that accounts have created, by account: with the number of the last node that counts in it.

    `after` is an account and such a number. The limit is that of nodes that are looked at, so the last account of a page may
    continue in the next one.
    """


class Trims(Listing[NodeName], frozen=True, gc=False):
    """Nodes that are to be trimmed, by name; `after` is a name."""


class Seeks(Listing[NodeName], frozen=True, gc=False):
    """Queues that are led to a moment, by name; `after` is a name."""


class Keeping(Listing[NodeName], frozen=True, gc=False):
    """Queues in which something is done and kept, by name; `after` is a name."""


class DroppingDead(Listing[NodeName], frozen=True, gc=False):
    """Nodes with a limit on their dead items, by age or number, by name; `after` is a name."""


class MovedTo(Listing[str], frozen=True, gc=False):
    """At most one row: the URI of the deleted node's replacement."""

    node: NodeName


class FormerSubscribers(Listing[Jid], frozen=True, gc=False):
    """Former subscribers of the deleted node that are still to be notified, by JID; `after` is a JID.

    If several deleted nodes had that name, this is about the first that still has subscribers to
    notify.
    """

    node: NodeName


class UnnotifiedNodes(Listing[tuple[int, NodeName]], frozen=True, gc=False):
    """Deleted nodes that still have subscribers to notify, the first one first; `after` is a number."""


class ConnectionsOf(Listing[tuple[int, Jid]], frozen=True, gc=False):
    """Subscriptions of addresses that look like connections of an instance to a service; `after` is a number.

    A row is the number of a subscription and its address. To read it walks all subscriptions.
    """

    service: Jid
    instance: int


class NodeEntries(Listing[NodeEntry], frozen=True, gc=False):
    """One row for each existing node: its items by state. That walks an index.

    `counted` are the numbers of queued and of dead items, if they are known: then they are not counted.
    """

    nodes: tuple[NodeName, ...]
    counted: tuple[int, int] | None = None


class Events(Listing[EventEntry], frozen=True, gc=False):
    """Events of these nodes (None: of all existing ones) numbered up to `until`; `after` is a number.

    `account` and `roles`: only of nodes with which the account has one of these affiliations. `item`: only of items with
    this id.
    """

    nodes: tuple[NodeName, ...] | None
    until: int
    account: Jid | None = None
    roles: tuple[Affiliation, ...] = ()
    item: ItemId | None = None


class EventsOf(Listing[EventEntry], frozen=True, gc=False):
    """Events of one item of a node; `after` is a number. To read them touches no others."""

    node: NodeName
    item: ItemId


class Samples(Listing[records.Sample], frozen=True, gc=False):
    """Samples of these nodes from a moment on, by node and time; no `after`."""

    nodes: tuple[NodeName, ...]
    since: Millis


class LogEnds(Listing[tuple[int, int]], frozen=True, gc=False):
    """One row: the numbers of the oldest and the newest event, 0 if there is none."""


class AgedEvents(Listing[int], frozen=True, gc=False):
    """At most one row: the last of the `limit` oldest events that is from before this moment."""

    before: Millis


class Forgettable(Listing[int], frozen=True, gc=False):
    """One row: how many ids of finished work no longer count at that moment; no more than `limit` are counted."""

    now: Millis


class RegistrationsOf(Listing[records.Registration], frozen=True, gc=False):
    """Registrations of an account, or of all, for a node, or for all nodes, by name; `after` is a name."""

    account: Jid | None = None
    node: NodeName | None = None


class Alerts(Listing[records.Alert], frozen=True, gc=False):
    """All alerts by name; `after` is one."""


class ForwardedTo(Listing[records.Forwarded], frozen=True, gc=False):
    """The bundles of notices whose marks have this prefix, in the order of their marks; there is no `after`."""

    beginning: str


class MessageBytes(Listing[bytes], frozen=True, gc=False):
    """The bytes of the message that is held under this mark; one row, or none."""

    mark: str


class MessagesOver(Listing[records.KeptMessage], frozen=True, gc=False):
    """Messages that are held, and answers that are remembered, whose time is over at `now`, the longest overdue first."""

    now: Millis


class MessagesOf(Listing[records.KeptMessage], frozen=True, gc=False):
    """Messages that are held of the account, or answers that are remembered, the first to end first."""

    account: Jid
    held: bool


class MessageAccounts(Listing[records.AccountMessages], frozen=True, gc=False):
    """Accounts of which messages are held, by name; `after` is a name."""


class Unfed(Listing[str], frozen=True, gc=False):
    """The marks of publishes that feed their queues in slices and are not done, the oldest first; they are not read behind one."""


class Schedules(Listing[Schedule], frozen=True, gc=False):
    """All schedules by name; `after` is a name."""


class DueSchedules(Listing[str], frozen=True, gc=False):
    """The names of schedules that are due at `now`, the longest overdue first."""

    now: Millis


# What is read of items in pages: those of a node, of a holder, of a group.


class GroupTurns(Listing[int], frozen=True, gc=False):
    """How many current turns each of these groups has, in their order."""

    groups: tuple[tuple[NodeName, str], ...]


class GroupTaken(Listing[Item], frozen=True, gc=False):
    """The items of these groups that have turns."""

    groups: tuple[tuple[NodeName, str], ...]


class GroupLines(Listing[Item], frozen=True, gc=False):
    """The first waiting items of each of these groups, up to `limit` of each, in the order of their publish."""

    groups: tuple[tuple[NodeName, str], ...]


class GroupsReady(Listing[Item], frozen=True, gc=False):
    """The items of these groups that can be delivered, up to `limit` of each: the first of each by priority and then by turn.

    Expired ones are left out, and those whose payload has more bytes than `size`.
    """

    groups: tuple[tuple[NodeName, str], ...]
    now: Millis
    size: int = ANY_SIZE


class GroupsWithTurns(Listing[str], frozen=True, gc=False):
    """Groups of a node with items that have turns, by name; `after` is a name."""

    node: NodeName


class WaitingGroups(Listing[str], frozen=True, gc=False):
    """Groups of a node with waiting items, by name; `after` is a name."""

    node: NodeName


class DoneItems(Listing[Item], frozen=True, gc=False):
    """What is done in a queue, by its publish, from the moment `since` on; `after` is a moment and a number."""

    node: NodeName
    since: Millis = NO_TIME


class ItemIds(Listing[ItemId], frozen=True, gc=False):
    """The ids of a node's items, oldest first; `after` is a sequence number."""

    node: NodeName


class Places(Listing[tuple[int, int]], frozen=True, gc=False):
    """The items of a plain node as (place, number), by place; `after` is one.

    In the order of their modification the place is the number; in that of their creation, the number of the first item of
    that id, whatever has overwritten it since. `backward`: in front of `after`, the nearest first.
    """

    node: NodeName
    created: bool
    backward: bool = False


class PlaceOf(Listing[int], frozen=True, gc=False):
    """One row: the place of the item of this number among the created ones."""

    number: int


class Items(Listing[tuple[Item, bytes]], frozen=True, gc=False):
    """A node's items with payloads, oldest first; `after` is a sequence number.

    `holders`: only items that are locked to one of these. `numbers`: only the items of these
    numbers, in their order. `newest`: the last n, still oldest first, and `after` is the number
    that they are before. The payloads are limited to `room` bytes, at which the page ends, but it
    has at least one item.
    """

    node: NodeName
    holders: tuple[Jid, ...] | None = None
    newest: bool = False
    numbers: tuple[int, ...] | None = None
    room: int = UNBOUNDED


class WithoutSum(Listing[tuple[Item, bytes]], frozen=True, gc=False):
    """Items in queues and plain nodes, then done ones, without a checksum, with their payloads; no `after`, and at least one if there is any."""

    room: int


class Content(Struct, frozen=True, gc=False):
    """What is stored of an item, and its checksum; `place` is that of its row."""

    place: tuple[int, int]
    node: NodeName
    id: ItemId
    group: str
    headers: Headers
    sum: int | None
    payload: bytes
    wait: Wait | None = None
    joins: int = 0


class Contents(Listing[Content], frozen=True, gc=False):
    """All rows of `item`, `done_item` or `staged`, with their payloads, by place; `after` is one."""

    table: str


class MembersOf(Listing[tuple[int, int]], frozen=True, gc=False):
    """How many items count for the join of this number, and how many of these are dead: one row."""

    join: int


SUMMED: Final = (
    "node",
    "affiliation",
    "subscription",
    "schedule",
    "registration",
    "txn_app",
    "txn",
)
"""Tables that have no items, and whose rows have checksums."""


class RowSum(Struct, frozen=True, gc=False):
    """A row of such a table: its place, its key in words, its checksum, and the one that it should have."""

    place: tuple[int, str]
    name: str
    known: int | None
    due: int


class RowSums(Listing[RowSum], frozen=True, gc=False):
    """All rows of one of `SUMMED` by place, `after` is one; or the next of those without a checksum."""

    table: str
    missing: bool = False


class DeadItems(Listing[Item], frozen=True, gc=False):
    """Items that died here or were moved here dead, and are not locked, oldest first; `after` is a number."""

    node: NodeName


class LocksFromLast(Listing[Item], frozen=True, gc=False):
    """All locked items, the last to end first; `after` is the deadline and the number of one."""


class DelayedFromLast(Listing[Item], frozen=True, gc=False):
    """All delayed items, the last to be due first; `after` is when one is due and its number."""


class ItemsFromLast(Listing[Item], frozen=True, gc=False):
    """The items of all nodes, the newest first; `after` is a pair whose second value is the number of one."""


class Locks(Listing[Item], frozen=True, gc=False):
    """Every locked item, by deadline and then number; `after` is such a pair."""


class HoldersOf(Listing[Jid], frozen=True, gc=False):
    """Addresses that hold items and look like connections of an instance to a service, each once, by address, of which `after` is one.

    To read it walks the holders of all locks.
    """

    service: Jid
    instance: int


class Holders(Listing[Jid], frozen=True, gc=False):
    """Addresses that hold items, each once, by address, of which `after` is one.

    To read it walks the holders of all locks.
    """


class KnownResources(Listing[Jid], frozen=True, gc=False):
    """Full JIDs that have shown themselves, and of which no report came that they left, by address, of which `after` is one."""


class HeldOf(Listing[int], frozen=True, gc=False):
    """How many items of each of these nodes all addresses of an account hold, in their order."""

    of: tuple[tuple[NodeName, Jid], ...]


class HeldBy(Listing[Item], frozen=True, gc=False):
    """Items locked to exactly this JID, in any node or in one, oldest first; `after` is a number."""

    holder: Jid
    node: NodeName | None = None


class ItemEntries(Listing[ItemEntry], frozen=True, gc=False):
    """A node's items numbered up to `until`; `after` is a number.

    The numbers are those of the items, or with the state DEAD those of their dead letters, and the order is theirs.
    Payloads are limited to `room` bytes, at which the page ends, but it has at least one item.
    """

    node: NodeName
    until: int
    state: State | None
    payloads: bool
    room: int


class DoneNamed(Listing[Item], frozen=True, gc=False):
    """Items of this id that are done and kept in the node, the newest first."""

    node: NodeName
    id: ItemId


class DeathBeyond(Listing[int], frozen=True, gc=False):
    """At most one row: the number of the newest dead letter of the node beyond the `limit` newest; none if there are no more."""

    node: NodeName


class Stride(Listing[int], frozen=True, gc=False):
    """At most one row: the number of the item `limit` places after `after` in the node; none if there are fewer."""

    node: NodeName


class NewestItems(Listing[tuple[NodeName, int]], frozen=True, gc=False):
    """The highest number of an item in each of these nodes, if there is any."""

    nodes: tuple[NodeName, ...]


class NewestItem(Listing[int], frozen=True, gc=False):
    """One row: the highest number of an item of the node, or of a dead letter, or of what is done and kept; 0 if there is none."""

    node: NodeName
    dead: bool
    done: bool = False


class Counted(Listing[tuple[int, Any]], frozen=True, gc=False):
    """One row: how many of a node's items in this state, queued or dead, are at the next `limit` places of their order.

    And the last of these places, None if there are none after it; `after` is such a place.
    """

    node: NodeName
    state: State


SIZES: Final = 20_000
"""Items whose sizes are looked at for one count."""


class TooLarge(Listing[int], frozen=True, gc=False):
    """How many of the first `SIZES` ready items of a queue have payloads of more than so many bytes."""

    node: NodeName
    byte_count: int


# What is read of versions in pages, open and committed: `Winners` begins a commit, and those below it are about its winners.


class Records(Listing[Record], frozen=True, gc=False):
    """Open versions, or committed ones, by the record's id; `after` is an id."""

    waiting: bool
    app: str | None = None
    owner: Jid | None = None


class RecordOf(Listing[Record], frozen=True, gc=False):
    """At most one row: the record of a committed version."""

    app: str
    version: int


class NewestRecord(Listing[Record], frozen=True, gc=False):
    """At most one row: of an app whose mark is damaged the record of the highest committed version that is whole."""

    app: str


class Sweepable(Listing[bool], frozen=True, gc=False):
    """One row: whether a sweep would find anything."""

    before: Millis


class AppsOf(Listing[int], frozen=True, gc=False):
    """One row: how many apps the account has, counted up to the limit of the page."""

    account: Jid


class Orphans(Listing[Orphan], frozen=True, gc=False):
    """Some of the items that belong to no node any more; there is no order, and no `after`."""


class AttemptsOf(Listing[Attempt], frozen=True, gc=False):
    """What each attempt of an open version has staged."""

    app: str
    version: int


class WinnerRows(Listing[WinnerRow], frozen=True, gc=False):
    """The rows that these attempts at a version have staged, by part and then in their order; `after` is a part and a row.

    Without `parts` the version is committed, and these are the rows that still have to be moved. Payloads are
    limited to `room` bytes, at which the page ends, but it has at least one row.
    """

    app: str
    version: int
    parts: tuple[tuple[int, int], ...] | None
    room: int


class Unmoved(Listing[Record], frozen=True, gc=False):
    """Records of committed versions with winners that still have to be moved, the oldest commit first."""


class NodeWinners(Struct, frozen=True, gc=False):
    """The winners of one node: their rows, and their ids."""

    node: NodeName
    rows: int
    ids: int


class Winners(Listing[NodeWinners], frozen=True, gc=False):
    """Begin a commit of these (part, attempt): of each node its winners."""

    app: str
    version: int
    parts: tuple[tuple[int, int], ...]


class Conflicts(Listing[Conflict], frozen=True, gc=False):
    """Winners of a node that are not yet compared with the items that have their ids; no `after`.

    With `absorbing`, finished work that still absorbs at that moment is included, but none that does so after `latest`.
    """

    node: NodeName
    absorbing: Millis | None
    latest: Millis = Millis(UNBOUNDED)


class WinnerClass(Struct, frozen=True, gc=False):
    """How many winners met an item in this state (or `finished` work), with their payload or another."""

    state: str
    same: bool
    count: int
    first: ItemId


class WinnerClasses(Listing[WinnerClass], frozen=True, gc=False):
    """The conflicts of a node's winners."""

    node: NodeName


class TakenWinners(Listing[TakenId], frozen=True, gc=False):
    """Winners of a node whose ids belong to locked or dead items with other payloads, by id."""

    node: NodeName


class WinningDrafts(Listing[tuple[Draft, int | None]], frozen=True, gc=False):
    """The winners of a node with their checksums, in their order, superseded ones left out."""

    node: NodeName


class NodeBytes(Struct, frozen=True, gc=False):
    """How many bytes the winners add to a node, as a queue and as a plain node; `taken` are of those whose ids are taken."""

    node: NodeName
    of_queue: int
    of_plain: int
    taken: int


class WinningBytes(Listing[NodeBytes], frozen=True, gc=False):
    """The bytes that the winners add to each node: after `Conflicts`, because they depend on equal payloads."""
