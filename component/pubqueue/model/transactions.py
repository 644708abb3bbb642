"""The nouns of transactions: items that a publisher stages, its commit, and the record of that.

An app writes versions that rise. Items published under a version wait unseen, kept apart by part and
attempt (a task of a distributed writer, and each try at it), until a commit names one attempt for each
part. Those appear together; everything else that was staged for the version is dropped.
"""

from __future__ import annotations

from enum import Enum, unique
from typing import TYPE_CHECKING, Final, cast

from msgspec import Struct

from pubqueue.model.entities import NO_TIME, seconds

if TYPE_CHECKING:
    from pubqueue.model.entities import Draft, Headers, ItemId, Jid, Millis, NodeName, State


DAY: Final = seconds(86_400)
MONTH: Final = seconds(30 * 86_400)


class Limits(Struct, frozen=True, gc=False):
    """How much may wait for a commit, and for how long; how long marks and records are kept, and how many marks."""

    items_per_account: int = 1_000_000
    bytes_per_account: int = 1 << 30
    items: int = 4_000_000
    bytes: int = 4 << 30
    staged_for: Millis = DAY
    kept_for: Millis = MONTH
    apps_per_account: int = 10_000


DEFAULTS: Final = Limits()


APART: Final = "\x1f"
"""The separator between the two halves of a key; no name of an account or an app contains it."""


def key_of(account: Jid, name: str) -> str:
    """Return the key of an account's app: two accounts may use the same name for two apps."""
    return f"{account}{APART}{name}"


def name_of_transaction(key: str) -> str:
    """Return the name of the app, as its account uses it, from a key."""
    return key.rpartition(APART)[2]


def account_of_transaction(key: str) -> Jid:
    """Return the account of the app from a key."""
    return cast("Jid", key.rpartition(APART)[0])


def account_and_name(key: str) -> str:
    """Return both in words, from a key."""
    return f"{name_of_transaction(key)} of {account_of_transaction(key)}"


class Mark(Struct, frozen=True, gc=False):
    """The place of a publish in a transaction. `immediate` items are visible before the commit."""

    app: str
    version: int
    part: int = 0
    attempt: int = 0
    immediate: bool = False


class App(Struct, frozen=True, gc=False):
    """A writer of transactions: its account, and the highest committed version."""

    name: str
    owner: Jid
    version: int | None = None
    committed: Millis | None = None
    used: Millis = NO_TIME
    damaged: bool = False
    """Whether the stored row is not what was written. Nothing else of it is to be believed then."""


class Version(Struct, frozen=True, gc=False):
    """An open version as stored: `items` and `bytes` are staged for it, until it expires."""

    app: str
    number: int
    owner: Jid
    immediate: bool
    began: Millis
    until: Millis
    items: int = 0
    bytes: int = 0
    damaged: bool = False
    """Whether the stored row is not what was written; it may be that of a committed version."""


class Attempt(Struct, frozen=True, gc=False):
    """An attempt at a part of an open version, with its staged items.

    `known` are those of its items that the node knew before; of a version that is visible at once. `grouped` counts the
    items of groups that were staged, including repetitions.
    """

    app: str
    version: int
    part: int
    number: int
    items: int = 0
    bytes: int = 0
    known: int = 0
    grouped: int = 0


class StagedTotals(Struct, frozen=True, gc=False):
    """What is staged for commits: of an account, or under the empty name of all."""

    account: str
    items: int = 0
    bytes: int = 0


class OpenVersion(Struct, frozen=True, gc=False):
    """A version that is not committed yet, with its staged items."""

    immediate: bool
    items: int
    bytes: int
    damaged: bool = False


class Usage(Struct, frozen=True, gc=False):
    """What is staged for commits: of one account, and in total."""

    account_items: int = 0
    account_bytes: int = 0
    items: int = 0
    bytes: int = 0


class Totals(Struct, frozen=True, gc=False):
    """The writer's own figures about its work in a commit; stored for lists of transactions."""

    skipped: int | None = None
    dead_lettered: int | None = None
    seconds: float | None = None


NO_TOTALS: Final = Totals()


@unique
class OnTaken(Enum):
    """What a commit does if ids of winners are taken: by locked items, or by dead ones with other payloads."""

    FAIL = "fail"
    SKIP = "skip"
    DEAD_LETTER = "dead-letter"


class Record(Struct, frozen=True, gc=False):
    """A transaction in a list: committed at some time, or open.

    `on_taken` and `dead_letter_node` are for winners that still have to be moved.
    """

    id: int
    app: str
    owner: Jid
    version: int
    began: Millis
    committed: Millis | None
    items: int
    bytes: int
    totals: Totals = NO_TOTALS
    on_taken: OnTaken = OnTaken.FAIL
    dead_letter_node: NodeName | None = None
    damaged: bool = False


class TakenId(Struct, frozen=True, gc=False):
    """An id that no winner can have, and the state of its item: locked or dead."""

    node: NodeName
    id: ItemId
    state: State


# --- replies -------------------------------------------------------------------------------------


class Skipped(Struct, frozen=True, gc=False):
    """The version is committed already: nothing was stored, and nothing needs to be."""

    node: NodeName
    ids: tuple[ItemId, ...]
    version: int


class Committed(Struct, frozen=True, gc=False):
    """The version is durable and visible. `known` items existed, or were finished, before.

    `taken` were left out, or went to the dead-letter node, because of their ids; the first are named.
    """

    version: int
    published: int
    known: int
    already: bool
    taken: int = 0
    named: tuple[TakenId, ...] = ()


class Phase(Enum):
    """What a commit that is at work does with its items: the version is committed between the two."""

    JUDGING = "judging"
    MOVING = "moving"


class AtWork(Struct, frozen=True, gc=False):
    """The commit goes on: `done` of its items are through this phase of it. Ask again for its end."""

    version: int
    phase: Phase
    done: int
    of: int


class LastVersion(Struct, frozen=True, gc=False):
    """The progress of the app: the last committed version, if there is one, and when."""

    app: str
    version: int | None
    at: Millis | None


class Transactions(Struct, frozen=True, gc=False):
    """A page of transactions, and whether more follow."""

    records: tuple[Record, ...]
    now: Millis
    more: bool


# --- changes -------------------------------------------------------------------------------------


class StagedItem(Struct, frozen=True, gc=False):
    """A staged item: times are spans from the commit. `over` is the size of the item that it overwrites."""

    draft: Draft
    state: State
    pause: Millis | None
    life: Millis | None
    size: int
    over: int | None = None
    known: bool = False
    sum: int | None = None
    """The checksum of its content (`model.sums`)."""


class WinnerRow(Struct, frozen=True, gc=False):
    """A row of an attempt that stands for its part; `superseded` by a later winner under the same id."""

    part: int
    attempt: int
    row: int
    node: NodeName
    item: StagedItem
    superseded: bool
    damaged: bool = False


class Stage(Struct, frozen=True, gc=False):
    """Stage items under the mark, overwriting those of the same id in the same attempt."""

    mark: Mark
    owner: Jid
    node: NodeName
    rows: tuple[StagedItem, ...]
    at: Millis
    until: Millis


class CommittedNode(Struct, frozen=True, gc=False):
    """The effect of the winners on one node: how many are added, replace others, or change nothing.

    In a queue those that replace give their payload; in a plain node they are appended as new
    items.
    """

    node: NodeName
    queueing: bool
    added: int
    replaced: int
    left: int


class SetAside(Struct, frozen=True, gc=False):
    """Winners whose ids are taken are dropped; or they go to the node `to`, under new ids.

    Such an id is made from the node, the id and the moment (`id_elsewhere`). A commit in the same
    transaction follows.
    """

    to: NodeName | None
    at: Millis


class Commit(Struct, frozen=True, gc=False):
    """The winners take their places, by part and then in their order; everything else of the version is dropped.

    `items` and `bytes` are those of the winners, for the record. If there are too many winners for one
    batch, `moving` has them by part and attempt, and `nodes` is empty: the items stay staged, to be moved
    in slices, and `on_taken` decides about those that cannot have their ids then.
    """

    app: str
    owner: Jid
    version: int
    at: Millis
    nodes: tuple[CommittedNode, ...]
    items: int
    bytes: int
    totals: Totals
    moving: tuple[tuple[int, int], ...] = ()
    on_taken: OnTaken = OnTaken.FAIL
    dead_letter_node: NodeName | None = None


class Moved(Struct, frozen=True, gc=False):
    """Winners of a committed version have been moved: of these attempts, by part and number, up to this row.

    The counts are of winners left out or dead-lettered because their ids are taken; the record adds them up.
    """

    app: str
    version: int
    ends: tuple[tuple[int, int, int], ...]
    skipped: int = 0
    dead_lettered: int = 0


class Abort(Struct, frozen=True, gc=False):
    """The staged items of the version are dropped, and the version with them.

    With `attempts`, each as part and number, only what these have staged; the version is dropped with the last
    of all.
    """

    app: str
    version: int
    attempts: tuple[tuple[int, int], ...] | None = None


class Restore(Struct, frozen=True, gc=False):
    """The damaged mark of an app is written again; with `record`, the damaged row of this committed version is, too.

    The row says then that the version was committed when the app's last was, and that its remaining winners take their
    places whatever has taken their ids.
    """

    app: App
    record: int | None = None


SWEPT_BYTES: Final = 16 << 20
"""Bytes of payloads that one slice drops; the last item may exceed that. To free 12 MB takes a store about 10 ms."""


class Orphan(Struct, frozen=True, gc=False):
    """An item that belongs to no node any more, by its number. Of one that waits for a reply to its author, what says so is known.

    `joins` is the join that it counts for, 0 for none.
    """

    seq: int
    id: ItemId
    publisher: Jid
    headers: Headers
    acquired: int
    failed: int
    joins: int = 0
    is_dead: bool = False


class Sweep(Struct, frozen=True, gc=False):
    """A slice of what no version or node needs any more is dropped, of so many rows and bytes, and these orphans; marks and records from before `before` too."""

    before: Millis
    limit: int
    orphans: tuple[Orphan, ...] = ()
    byte_count: int = SWEPT_BYTES


Reply = Skipped | Committed | AtWork | LastVersion | Transactions
Change = Stage | SetAside | Commit | Moved | Abort | Restore | Sweep
