"""The nouns of transactions: what a publisher stages, what it then commits, and what is kept of it.

An app writes versions that rise. What is published under a version waits unseen, kept apart by part and
attempt (a task of a distributed writer, and each try at it), until a commit names one attempt for each
part. Those appear together; everything else that was staged for the version goes.
"""

from __future__ import annotations

from enum import Enum, unique
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pubqueue.core.model import NO_TIME, seconds

if TYPE_CHECKING:
    from pubqueue.core.model import Draft, ItemId, Jid, Millis, NodeName, State

DAY: Final = seconds(86_400)
MONTH: Final = seconds(30 * 86_400)


class Limits(Struct, frozen=True, gc=False):
    """How much may wait for a commit, and for how long; how long marks and records are kept."""

    items_per_account: int = 1_000_000
    bytes_per_account: int = 1 << 30
    items: int = 4_000_000
    bytes: int = 4 << 30
    staged_for: Millis = DAY
    kept_for: Millis = MONTH


DEFAULTS: Final = Limits()


APART: Final = "\x1f"
"""Between the two halves of a key; no name of an account or an app has it."""


def key_of(account: Jid, name: str) -> str:
    """Return under what an account's app is kept: two accounts that name theirs alike have two apps."""
    return f"{account}{APART}{name}"


def name_of(key: str) -> str:
    """Return the name by which its account calls the app of a key."""
    return key.rpartition(APART)[2]


class Mark(Struct, frozen=True, gc=False):
    """Where in a transaction a publish belongs. `immediate` items are visible before the commit."""

    app: str
    version: int
    part: int = 0
    attempt: int = 0
    immediate: bool = False


class App(Struct, frozen=True, gc=False):
    """A writer of transactions: its account, and the highest version that is committed."""

    name: str
    owner: Jid
    version: int | None = None
    committed: Millis | None = None
    used: Millis = NO_TIME


class Version(Struct, frozen=True, gc=False):
    """An open version as stored: `items` and `bytes` are what waits for it, until when it may."""

    app: str
    number: int
    owner: Jid
    immediate: bool
    began: Millis
    until: Millis
    items: int = 0
    bytes: int = 0


class Attempt(Struct, frozen=True, gc=False):
    """A try at a part of an open version, with what it has staged.

    `known` are those of its items that the node knew before; of a version that is visible at once. `grouped` counts what
    was staged of groups, again each time that it came again.
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
    """What waits for commits: of an account, or under the empty name of all."""

    account: str
    items: int = 0
    bytes: int = 0


class OpenVersion(Struct, frozen=True, gc=False):
    """A version that is not committed yet, with what waits for it."""

    immediate: bool
    items: int
    bytes: int


class Usage(Struct, frozen=True, gc=False):
    """What waits for commits: of one account, and in all."""

    account_items: int = 0
    account_bytes: int = 0
    items: int = 0
    bytes: int = 0


class NotedItem(Struct, frozen=True, gc=False):
    """What the open version knows of an id: its payload, and that the node knew it before."""

    payload: bytes
    known: bool


class Totals(Struct, frozen=True, gc=False):
    """The writer's own figures about its work in a commit; stored for lists of transactions."""

    skipped: int | None = None
    dead_lettered: int | None = None
    seconds: float | None = None


NO_TOTALS: Final = Totals()


@unique
class OnTaken(Enum):
    """What a commit does when ids of winners are taken: by items in work, or dead, with other payloads."""

    FAIL = "fail"
    SKIP = "skip"
    DEAD_LETTER = "dead-letter"


class Record(Struct, frozen=True, gc=False):
    """A transaction as it is listed: committed at some time, or open.

    `on_taken` and `dead_letter_node` are for winners that are still to be moved.
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


class TakenId(Struct, frozen=True, gc=False):
    """An id that no winner can have, and what its item is: locked or dead."""

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
    """The version is durable and visible. `known` items were there, or finished, before.

    `taken` were left out, or went to the dead-letter node, because of their ids; the first are named.
    """

    version: int
    published: int
    known: int
    already: bool
    taken: int = 0
    named: tuple[TakenId, ...] = ()


class LastVersion(Struct, frozen=True, gc=False):
    """How far the app is: the last committed version, if there is one, and when."""

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
    """An item as it waits: times are spans from the commit. `over` is the size of what it overwrites."""

    draft: Draft
    state: State
    pause: Millis | None
    life: Millis | None
    size: int
    over: int | None = None
    known: bool = False


class WinnerRow(Struct, frozen=True, gc=False):
    """A row of an attempt that stands for its part; `superseded` by a later winner under the same id."""

    part: int
    attempt: int
    row: int
    node: NodeName
    item: StagedItem
    superseded: bool


class Stage(Struct, frozen=True, gc=False):
    """Items wait under the mark, those of the same id in the same attempt overwritten."""

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

    Such an id is made of the node, the id and the moment (`id_elsewhere`). A commit in the same
    transaction follows.
    """

    to: NodeName | None
    at: Millis


class Commit(Struct, frozen=True, gc=False):
    """The winners take their places, by part and then in their order; all else of the version is dropped.

    `items` and `bytes` are those of the winners, for the record. If the winners are too many for
    one batch, `moving` has them by part and attempt, and `nodes` is empty: the items stay staged,
    to be moved in slices, and `on_taken` says what happens to those that cannot have their ids
    then.
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
    """Winners of a committed version are in their places: of these attempts, by part and number, up to this row.

    The counts are of winners left out or dead-lettered because their ids are taken; the record adds
    them up.
    """

    app: str
    version: int
    ends: tuple[tuple[int, int, int], ...]
    skipped: int = 0
    dead_lettered: int = 0


class Abort(Struct, frozen=True, gc=False):
    """What waits for the version goes, and the version with it.

    With `attempts`, each as part and number, only what these have staged; the version goes with the last of all.
    """

    app: str
    version: int
    attempts: tuple[tuple[int, int], ...] | None = None


class Sweep(Struct, frozen=True, gc=False):
    """A slice of what no version wants any more goes; marks and records from before `before` too."""

    before: Millis
    limit: int


Reply = Skipped | Committed | LastVersion | Transactions
Change = Stage | SetAside | Commit | Moved | Abort | Sweep
