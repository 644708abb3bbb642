"""What is read of versions in pages, open and committed: `Winners` begins a commit, and those below it are about its winners."""

from __future__ import annotations

from msgspec import Struct

from pubqueue.app.store.listings import Listing
from pubqueue.app.store.rows import Conflict
from pubqueue.model.entities import Draft, ItemId, Jid, Millis, NodeName
from pubqueue.model.transactions import Attempt, Record, TakenId, WinnerRow


class Records(Listing[Record], frozen=True, gc=False):
    """Open versions, or committed ones, by the record's id; `after` is an id."""

    waiting: bool
    app: str | None = None
    owner: Jid | None = None


class RecordOf(Listing[Record], frozen=True, gc=False):
    """At most one row: the record of a committed version."""

    app: str
    version: int


class Sweepable(Listing[bool], frozen=True, gc=False):
    """One row: whether a sweep would find anything."""

    before: Millis


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


class Unmoved(Listing[tuple[str, int]], frozen=True, gc=False):
    """Committed versions with winners that still have to be moved, the oldest commit first: app and version."""


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

    With `absorbing`, finished work that still absorbs at that moment is included.
    """

    node: NodeName
    absorbing: Millis | None


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


class WinningDrafts(Listing[Draft], frozen=True, gc=False):
    """The winners of a node, in their order, superseded ones left out."""

    node: NodeName


class NodeBytes(Struct, frozen=True, gc=False):
    """How many bytes the winners add to a node, as a queue and as a plain node; `taken` are of those whose ids are taken."""

    node: NodeName
    of_queue: int
    of_plain: int
    taken: int


class WinningBytes(Listing[NodeBytes], frozen=True, gc=False):
    """The bytes that the winners add to each node: after `Conflicts`, because they depend on equal payloads."""
