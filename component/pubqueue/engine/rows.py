"""What a batch requests from its store, and what it writes there: rows, by kind.

A store keeps rows and judges nothing. It is asked for many rows of many kinds at once, and is given, for
each row that the batch has changed, the state before and the state after.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

from msgspec import Struct, field

from pubqueue.model import records
from pubqueue.model.entities import Millis
from pubqueue.model.schedules import Schedule
from pubqueue.model.transactions import App, Attempt, StagedTotals, Version

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pubqueue.model import changes
    from pubqueue.model.entities import (
        Affiliation,
        Item,
        ItemId,
        Jid,
        Node,
        NodeName,
        Subscription,
    )
    from pubqueue.model.transactions import (
        Abort,
        Commit,
        Moved,
        Restore,
        SetAside,
        StagedItem,
        Sweep,
    )
    from pubqueue.rules.expire import Key


# Kinds of rows, and dictionaries by kind: of keys, of rows, of writes.
#
# A row of a kind is found by its key alone. The kinds are listed in `rows.KINDS`.

K = TypeVar("K")
Row = TypeVar("Row", bound=Struct)


class RowKind(Generic[K, Row]):
    """A kind of row. A key without a row is None.

    `key` and `guard` are fields of the row: a write finds the stored row by the key and compares the guard. A row that is
    `kept` is remembered between batches. A row that is `always_written` is written even if the batch left it as it was:
    the write checks that no other process has changed it.
    """

    def __init__(  # one line of a table
        self,
        name: str,
        one: str,
        row: type[Row],
        *,
        key: Sequence[str],
        guard: Sequence[str] = (),
        kept: bool = False,
        always_written: bool = False,
    ) -> None:
        self.name = name
        """The name of the statement that loads rows."""
        self.one = one
        """The last part of the names of the statements that write a row, `add_`, `change_` and `drop_`; empty if rows are only loaded."""
        self.row = row
        self.key, self.guard = tuple(key), tuple(guard)
        self.facts = tuple(field for field in row.__struct_fields__ if field not in self.key)
        self.kept = kept
        self.always_written = always_written
        self.key_of: Callable[[Row], K] = attrgetter(*key)  # type: ignore[assignment]  # K is what these fields hold
        """The key of a row: the value of its field, a tuple if there are several."""

    def __repr__(self) -> str:
        """Return its name."""
        return self.name


class KeysByKind(dict[RowKind[Any, Any], set[Any]]):
    """Keys of rows."""

    if TYPE_CHECKING:

        def __getitem__(self, kind: RowKind[K, Row]) -> set[K]: ...

    def __missing__(self, kind: RowKind[K, Row]) -> set[K]:
        """Begin to request rows of a kind."""
        keys = self[kind] = set()
        return keys


class RowsByKind(dict[RowKind[Any, Any], "list[Any]"]):
    """Rows that were found: kinds with any rows."""

    if TYPE_CHECKING:

        def __getitem__(self, kind: RowKind[K, Row]) -> list[Row]: ...

    def __missing__(self, kind: RowKind[K, Row]) -> list[Row]:
        """Return no rows."""
        return []


class TablesByKind(dict[RowKind[Any, Any], "dict[Any, Any]"]):
    """Tables of rows by key; None is a row that is known not to exist."""

    if TYPE_CHECKING:

        def __getitem__(self, kind: RowKind[K, Row]) -> dict[K, Row | None]: ...

    def __missing__(self, kind: RowKind[K, Row]) -> dict[K, Row | None]:
        """Begin a table."""
        table = self[kind] = {}
        return table


if TYPE_CHECKING:
    BulkOfPeople = (
        changes.DropFormer | changes.BeginReview | changes.EndReview | changes.EndSubscriptions
    )
    BulkOfItems = (
        changes.PurgeNode
        | changes.BeginTrim
        | changes.EndTrim
        | SetAside
        | Commit
        | Moved
        | Abort
        | Restore
        | Sweep
    )
    BulkChange = (
        BulkOfPeople
        | BulkOfItems
        | changes.Forget
        | changes.ForgetEvents
        | changes.NoteSamples
        | changes.NoteSums
    )

R = TypeVar("R")

HELD: Final = 50
"""Items of one holder that are loaded with the rows of a batch; more of them come in pages (`HeldBy`)."""


class AffiliationRow(Struct, frozen=True, gc=False):
    """The affiliation of the account with the node; there is no row for NONE."""

    node: NodeName
    account: Jid
    affiliation: Affiliation
    damaged: bool = False
    """Whether the stored row is not what was written. The affiliation is OUTCAST then: it may have been."""


class Finished(Struct, frozen=True, gc=False):
    """The id of finished work, which absorbs a re-publish of the payload of `digest` until then."""

    node: NodeName
    id: ItemId
    digest: bytes
    until: Millis


class StagedKey(Struct, frozen=True, gc=False):
    """The place of a staged item: its attempt, part, version and node."""

    app: str
    version: int
    part: int
    attempt: int
    node: NodeName
    id: ItemId


class NotedKey(Struct, frozen=True, gc=False):
    """An item of an open version, whichever attempt has staged it."""

    app: str
    version: int
    node: NodeName
    id: ItemId


class StagedSize(Struct, frozen=True, gc=False):
    """The size of the item that is staged there."""

    key: StagedKey
    size: int


class NotedRow(Struct, frozen=True, gc=False):
    """A payload of a noted item, and whether the node knew the id before the version."""

    key: NotedKey
    payload: bytes
    known: bool


class KnownJid(Struct, frozen=True, gc=False):
    """An account, or full JID, that has an affiliation, subscribes as an account, or holds a locked item as exactly this JID."""

    jid: Jid


# fmt: off
KINDS: Final[tuple[RowKind[Any, Any], ...]] = (
    AFFILIATIONS := RowKind[tuple["NodeName", "Jid"], AffiliationRow](
        "affiliations", "affiliation", AffiliationRow, key=["node", "account"], guard=["affiliation"], kept=True),
    FINISHED := RowKind[tuple["NodeName", "ItemId"], Finished](
        "finished", "finished", Finished, key=["node", "id"], guard=["digest", "until"]),
    SEEKS := RowKind["NodeName", records.SeekMark](
        "seeks", "seek", records.SeekMark, key=["node"], guard=["at"]),
    SETTLED := RowKind[int, records.Settled](
        "settled", "settled", records.Settled, key=["token"], guard=["until"]),
    USED_KEYS := RowKind[str, records.UsedKey](
        "used_keys", "used_key", records.UsedKey, key=["mark"], guard=["until"]),
    PING_ANSWERS := RowKind["Jid", records.PingAnswer](
        "ping_answers", "ping_answer", records.PingAnswer, key=["jid"], guard=["at"]),
    ANSWERED := RowKind[int, records.Answered](
        "answered_deliveries", "answered", records.Answered, key=["token"], guard=["arrived"]),
    KEY_TOTALS := RowKind["Jid", records.KeyTotal](
        "key_totals", "key_total", records.KeyTotal, key=["account"], guard=["bytes"]),
    APPS := RowKind[str, App](
        "apps", "app", App, key=["name"], guard=["owner", "version"], always_written=True),
    VERSIONS := RowKind[tuple[str, int], Version](
        "versions", "version", Version, key=["app", "number"], always_written=True),
    ATTEMPTS := RowKind[tuple[str, int, int, int], Attempt](
        "attempts", "attempt", Attempt, key=["app", "version", "part", "number"], always_written=True),
    WAITING := RowKind[str, StagedTotals](
        "waiting", "waiting", StagedTotals, key=["account"], always_written=True),
    SCHEDULES := RowKind[str, Schedule](
        "schedules", "schedule", Schedule, key=["name"], guard=["revision"]),
    REGISTRATIONS := RowKind[str, records.Registration](
        "registrations", "registration", records.Registration, key=["name"], guard=["revision"]),
    SECRETS := RowKind[str, records.ServiceSecret](
        "secrets", "secret", records.ServiceSecret, key=["name"], guard=["value"]),
    ALERTS := RowKind[str, records.Alert](
        "alerts", "alert", records.Alert, key=["name"], guard=["since", "over", "reported"]),
    WATCHES := RowKind[str, records.AlertWatch](
        "alert_watches", "alert_watch", records.AlertWatch, key=["name"], guard=["runner", "until"]),
    FORWARDED := RowKind[str, records.Forwarded](
        "forwarded_bundles", "forwarded", records.Forwarded, key=["mark"]),
    KEPT_MESSAGES := RowKind[str, records.KeptMessage](
        "kept_messages", "kept_message", records.KeptMessage, key=["mark"], guard=["digest", "held", "until"]),
    MESSAGE_TOTALS := RowKind[str, records.MessageTotal](
        "message_totals", "message_total", records.MessageTotal, key=["account"], guard=["messages", "byte_count", "remembered"]),
    FEEDINGS := RowKind[str, records.Feeding](
        "feedings", "feeding", records.Feeding, key=["mark"], guard=["place"]),
    FED_MESSAGES := RowKind[str, records.FedMessage](
        "fed_messages", "fed_message", records.FedMessage, key=["name"]),
    # only loaded
    STAGED := RowKind[StagedKey, StagedSize]("staged", "", StagedSize, key=["key"]),
    NOTED := RowKind[NotedKey, NotedRow]("noted", "", NotedRow, key=["key"]),
    PEOPLE := RowKind["Jid", KnownJid]("people", "", KnownJid, key=["jid"]),
    HOLDINGS := RowKind["Jid", records.Holding]("holdings", "", records.Holding, key=["account"], kept=True),
)
# fmt: on
"""Every kind of row that is found by its key alone, in the order in which rows are written.

Nodes, subscriptions, full JIDs and items are not among them: they are loaded in several ways, or in groups.
"""


KIND_OF: Final = {kind.row: kind for kind in KINDS}
"""The kind of each class of rows."""


class Needs(Struct):
    """Keys of the requested rows, by kind. A row that does not exist is not in the answer."""

    of: KeysByKind = field(default_factory=KeysByKind)
    """Of the kinds in `KINDS`."""
    nodes: set[NodeName] = field(default_factory=set)
    subscriptions: set[tuple[NodeName, Jid]] = field(default_factory=set)
    """By node and account: those of all JIDs of the account."""
    subscribers: set[NodeName] = field(default_factory=set)
    """All subscriptions to the node, the oldest first."""
    accounts: set[Jid] = field(default_factory=set)
    """All subscriptions of the account's JIDs, to any node."""
    jids: set[Jid] = field(default_factory=set)
    """All subscriptions of exactly these JIDs, to any node."""
    resources: set[Jid] = field(default_factory=set)
    """All full JIDs of the account that are here, in the order of their coming."""
    items: set[tuple[NodeName, ItemId]] = field(default_factory=set)
    numbers: set[int] = field(default_factory=set)
    """Items by their sequence number."""
    held: set[Jid] = field(default_factory=set)
    """Items locked to exactly this JID, in any node: `HELD` of them, whichever, and one more if there are more."""
    payloads: set[int] = field(default_factory=set)
    """By the sequence number of an existing item."""
    receipts: set[int] = field(default_factory=set)
    """All former holders of the existing item with this sequence number."""


class Sign(NamedTuple):
    """When a full JID last showed activity: all locks with lower tokens were given before, and the time; zeros: not known."""

    token: int = 0
    at: Millis = Millis(0)


class Rows(Struct):
    """The rows that were found, by kind."""

    of: RowsByKind = field(default_factory=RowsByKind)
    """Of the kinds in `KINDS`."""
    nodes: list[Node] = field(default_factory=list)
    subscriptions: list[Subscription] = field(default_factory=list)
    """Of all kinds of need for them, each row once."""
    resources: list[Jid] = field(default_factory=list)
    present: list[Jid] = field(default_factory=list)
    """Those of `resources` that have sent available presence."""
    active: dict[Jid, Sign] = field(default_factory=dict)
    """For each JID when it was last active; JIDs for which that is not known are missing."""
    able: dict[Jid, bool] = field(default_factory=dict)
    """For each JID whether its client has `urn:xmpp:qos`; JIDs of which that is not known are missing."""
    items: list[Item] = field(default_factory=list)
    """Of all three kinds of need, each row once."""
    payloads: list[tuple[int, bytes, int | None]] = field(default_factory=list)
    """By the number of the item, each with the checksum of the item."""
    receipts: list[tuple[int, Jid]] = field(default_factory=list)


class Write(Struct, Generic[R], frozen=True, gc=False):
    """A row as it was when the batch first met it, and as it is: None if there is no row."""

    before: R | None
    after: R | None


class WritesByKind(dict[RowKind[Any, Any], list[Write[Any]]]):
    """Rows to write, each as it was and as it is."""

    if TYPE_CHECKING:

        def __getitem__(self, kind: RowKind[K, Row]) -> list[Write[Row]]: ...

    def __missing__(self, kind: RowKind[K, Row]) -> list[Write[Row]]:
        """Begin to write rows of a kind."""
        writes = self[kind] = []
        return writes


class StagedRow(Struct, frozen=True, gc=False):
    """A staged item, at the end of its attempt, or in the place of its predecessor."""

    key: StagedKey
    row: StagedItem


class Conflict(Struct, frozen=True, gc=False):
    """A winner of a commit and the existing item of its id: a payload, or the digest of finished work."""

    key: tuple[int, int]
    finished: bool
    there: bytes
    offered: bytes


class Judged(Struct, frozen=True, gc=False):
    """Whether these winners are equal to the existing items; finished work that differs no longer counts."""

    verdicts: tuple[tuple[Conflict, bool], ...]


if TYPE_CHECKING:
    Bulk = BulkChange | Judged
    """A change of many rows at once, which the store makes by itself."""


MAX_MOVED: Final = 10_000
MOVED_FOR: Final = 366 * 86_400_000
"""How many deleted nodes, the last ones, keep their new addresses, and for how many milliseconds; a new one drops the older."""


class Writes(Struct):
    """What a batch did, a row at a time; `at` is its moment. `bulk` is made last, in order.

    Deleted items take their receipts with them. The rows of deleted nodes are swept later.
    """

    at: Millis
    of: WritesByKind = field(default_factory=WritesByKind)
    """Of the kinds in `KINDS`."""
    nodes: list[Write[Node]] = field(default_factory=list)
    announce: list[NodeName] = field(default_factory=list)
    """The deleted nodes whose subscribers must be notified before their subscriptions are deleted."""
    moved: dict[NodeName, str] = field(default_factory=dict)
    """For deleted nodes, the URIs of their replacements; a node that is created has not moved any more."""
    subscriptions: list[Write[Subscription]] = field(default_factory=list)
    resources: list[Write[Jid]] = field(default_factory=list)
    present: list[Jid] = field(default_factory=list)
    """Known full JIDs that have sent available presence. No row is guarded."""
    active: list[tuple[Jid, Sign]] = field(default_factory=list)
    """For full JIDs that are here: when they showed activity. No row is guarded."""
    able: list[tuple[Jid, bool]] = field(default_factory=list)
    """Of full JIDs that are here: whether their clients have `urn:xmpp:qos`. No row is guarded."""
    items: list[Write[Item]] = field(default_factory=list)
    overwritten: list[tuple[NodeName, int, int]] = field(default_factory=list)
    """By node: an item whose place among the created ones another, of the second number, takes."""
    placeless: list[int] = field(default_factory=list)
    """Removed items of plain nodes; after `overwritten`."""
    payloads: dict[int, bytes] = field(default_factory=dict)
    """By sequence number: of items that are new, or have another payload than before."""
    anew: list[int] = field(default_factory=list)
    """Items whose receipts are dropped; before `receipts` are added."""
    receipts: list[tuple[int, Jid]] = field(default_factory=list)
    staged: list[StagedRow] = field(default_factory=list)
    events: list[records.LogEntry] = field(default_factory=list)
    """Appended to the event log before anything else is written, each under the next number."""
    bulk: list[Bulk] = field(default_factory=list)


Rank = tuple[int, int]
"""The place of an item among the ready items: its priority, negated, and its number, or that of its turn."""

BEGINNING: Final[Rank] = (-(1 << 62), 0)
"""Before all."""


def rank(item: Item) -> Rank:
    """Return the place of an item: the higher priority first, then the older; of a group, whose turn came first."""
    return -item.priority, item.turn or item.seq


def up_to(first: Item) -> Rank:
    """Return the last place before an item."""
    priority, place = rank(first)
    return priority, place - 1


class Passed(Struct, frozen=True, gc=False):
    """The position of a look at the ready items of a queue, in the orders of queued items and of those put aside."""

    queued: Rank = BEGINNING
    aside: Rank = BEGINNING


class Reach(Struct, frozen=True, gc=False):
    """How far to look for ready items: after these places, and past this many unwanted items.

    These are expired items, and in nodes of `sizes` those whose payload has more bytes than that. With `is_alone`, which needs a size
    for each node, these are also queued items of groups.
    """

    behind: Mapping[NodeName, Passed] = {}
    places: int = 1 << 40
    sizes: Mapping[NodeName, int] = {}
    is_alone: bool = False


class Ready(Struct):
    """Items with payloads that can be delivered; `passed` has the queues whose scan ended early."""

    rows: list[tuple[Item, bytes]]
    passed: dict[NodeName, Passed] = field(default_factory=dict)
    damaged: set[NodeName] = field(default_factory=set)
    """Nodes whose damaged items were left out (`engine.damage`)."""


class Due(Struct, frozen=True, gc=False):
    """The rows that have expired at a time, up to a limit of each kind, the longest overdue first."""

    locks: list[Item]
    lives: list[Item]
    """Items without a lock."""
    delayed: list[Item]
    versions: list[tuple[str, int]]
    """Open versions whose time to wait for a commit has ended."""
    leases: list[Subscription]
    """Subscriptions whose lease has ended, or whose subscriber must be notified that it ends."""
    unread: list[Key] = field(default_factory=list)
    """The keys of expired rows with unreadable values, written by another program."""
