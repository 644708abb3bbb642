"""Commit: the winners of a version appear together, in one transaction over all nodes, or none does.

There may be a million of them, so the rule sees no items but classes of them, with their counts and the
first id of each. What becomes of each class is decided by the table that decides single publishes.
Of several winners under one id only the last counts.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from msgspec import Struct

from pubqueue.core.decision import (
    NOBODY,
    Announce,
    Decision,
    Refusal,
    refuse,
    to_each,
)
from pubqueue.core.queue.publish import (
    PLACES,
    TAKEN,
    Known,
    Place,
    Publish,
    PublishFacts,
    inadmissible,
    overfull,
)
from pubqueue.core.transactions.model import NO_TOTALS, Commit, Committed, CommittedNode
from pubqueue.core.transactions.staging import done, foreign

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pubqueue.core.decision import ToEach
    from pubqueue.core.model import (
        Affiliation,
        Asker,
        Draft,
        ItemId,
        Jid,
        Millis,
        Node,
        NodeName,
        State,
    )
    from pubqueue.core.transactions.model import App, OpenVersion, Record, Totals


class Part(Struct, frozen=True, gc=False):
    """The attempt that stands for a part, and how many items it has staged."""

    number: int
    attempt: int
    items: int


class CommitVersion(Struct, frozen=True, gc=False):
    """Show what these attempts have staged for the version, and drop the rest."""

    by: Asker
    app: str
    version: int
    parts: tuple[Part, ...]
    totals: Totals = NO_TOTALS


class WinnerCount(Struct, frozen=True, gc=False):
    """So many winners met this under their ids; `first` is one of them."""

    known: Known
    state: State | None
    count: int
    first: ItemId


class CommitNodeFacts(Struct, frozen=True, gc=False):
    """The winners of one node: their rows, their ids, and what of these the node knows already."""

    name: NodeName
    node: Node | None
    affiliation: Affiliation
    subscribed: bool
    rows: int
    ids: int
    found: tuple[WinnerCount, ...] = ()
    audience: tuple[Jid, ...] = ()
    drafts: tuple[Draft, ...] = ()
    """Those of a plain node that somebody subscribes to: they are announced."""


class CommitFacts(Struct, frozen=True, gc=False):
    """The app, what is staged for the version by each attempt, and what the named ones meet in each node.

    `bytes` is the size of the named. `noted` counts the named items of an immediate version, and those
    of them that were known.
    """

    now: Millis
    app: App | None
    open: OpenVersion | None = None
    record: Record | None = None
    staged: Mapping[tuple[int, int], int] | None = None
    nodes: tuple[CommitNodeFacts, ...] = ()
    bytes: int = 0
    noted: tuple[int, int] = (0, 0)


def objection(request: CommitVersion, facts: CommitFacts) -> Decision | None:
    """Return the answer to a commit that comes to nothing, before anybody looks at its items."""
    if (no := foreign(request.by, facts.app)) is not None:
        return no
    if done(facts.app, request.version):
        items = facts.record.items if facts.record is not None else 0
        return Decision(Committed(request.version, items, 0, already=True))
    waiting = facts.open.items if facts.open is not None else 0
    if waiting and not request.parts:
        reason = f"the commit names no part, and {waiting} items are staged"
        return refuse(Refusal.NOT_AS_STAGED, reason)
    staged = facts.staged or {}
    for part in request.parts:
        count = staged.get((part.number, part.attempt), 0)
        if count != part.items:
            return refuse(
                Refusal.NOT_AS_STAGED,
                f"part {part.number} is named with {part.items} items of attempt {part.attempt}, "
                f"and {count} are staged",
            )
    return None


def commit(request: CommitVersion, facts: CommitFacts) -> Decision:
    """Decide a commit. A refusal leaves everything staged, and nothing visible."""
    if (no := objection(request, facts)) is not None:
        return no
    if facts.open is not None and facts.open.immediate:
        rows, known = facts.noted
        reply = Committed(request.version, rows - known, known, already=False)
        return Decision(reply, (_change(request, facts, rows, ()),))
    nodes: list[CommittedNode] = []
    for winners in facts.nodes:
        committed = _node(request, facts, winners)
        if isinstance(committed, Decision):
            return committed
        nodes.append(committed)
    rows = sum(winners.rows for winners in facts.nodes)
    known = sum(committed.left for committed in nodes)
    reply = Committed(request.version, rows - known, known, already=False)
    change = _change(request, facts, rows, tuple(nodes))
    return Decision(reply, (change,), tuple(_announce(request.by.account, facts.nodes)))


def _node(
    request: CommitVersion, facts: CommitFacts, winners: CommitNodeFacts
) -> CommittedNode | Decision:
    """Return what the winners do to one node, or the refusal of them all."""
    node = winners.node
    if node is None:
        return refuse(Refusal.NODE_NOT_FOUND, f"node {winners.name} is no more")
    as_publish = Publish(request.by, node.name, ())
    may = PublishFacts(facts.now, node, winners.affiliation, winners.subscribed, ())
    if (no := inadmissible(as_publish, may, node)) is not None:
        return no
    places: Counter[Place] = Counter()
    for found in winners.found:
        place = PLACES[found.known, found.state] if node.config.queueing else Place.REPLACE
        if place in TAKEN:
            refusal, words = TAKEN[place]
            return refuse(refusal, f"{words.format(found.first)} (node {node.name})")
        places[place] += found.count
    committed = CommittedNode(
        node.name,
        queueing=node.config.queueing,
        added=winners.ids - places.total(),
        replaced=places[Place.REPLACE],
        left=places[Place.LEAVE] + winners.rows - winners.ids,
    )
    if overfull(node, committed.added, 0):
        return refuse(Refusal.NODE_FULL, limit=node.config.max_items)
    return committed


def _change(
    request: CommitVersion, facts: CommitFacts, items: int, nodes: tuple[CommittedNode, ...]
) -> Commit:
    who = request.by.account
    return Commit(
        *(request.app, who, request.version, facts.now, nodes),
        items=items,
        bytes=facts.bytes,
        totals=request.totals,
    )


def _announce(publisher: Jid, nodes: Iterable[CommitNodeFacts]) -> Iterable[ToEach]:
    """Tell the subscribers of plain nodes; a queue's items are handed out, not announced."""
    for winners in nodes:
        for draft in winners.drafts:
            yield from to_each(winners.audience, Announce(NOBODY, winners.name, draft, publisher))
