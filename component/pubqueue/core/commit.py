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
    Announce,
    Decision,
    Refusal,
    refuse,
)
from pubqueue.core.publish import (
    PLACES,
    TAKEN,
    Known,
    Place,
    Publish,
    PublishFacts,
    inadmissible,
    overfull,
)
from pubqueue.core.transactions import UNTOLD, Commit, Committed, Outcome
from pubqueue.core.txn import done, foreign

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pubqueue.core.decision import Notice
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
    from pubqueue.core.transactions import App, Open, Record, Told


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
    told: Told = UNTOLD


class Found(Struct, frozen=True, gc=False):
    """So many winners met this under their ids; `first` is one of them."""

    known: Known
    state: State | None
    count: int
    first: ItemId


class Tally(Struct, frozen=True, gc=False):
    """The winners of one node: their rows, their ids, and what of these the node knows already."""

    name: NodeName
    node: Node | None
    affiliation: Affiliation
    subscribed: bool
    rows: int
    ids: int
    found: tuple[Found, ...] = ()
    audience: tuple[Jid, ...] = ()
    drafts: tuple[Draft, ...] = ()
    """Those of a plain node that somebody subscribes to: they are announced."""


class CommitFacts(Struct, frozen=True, gc=False):
    """The app, what is staged for the version by each attempt, and the tally of the named ones.

    `bytes` is the size of the named. `noted` counts the named items of an immediate version, and those
    of them that were known.
    """

    now: Millis
    app: App | None
    open: Open | None = None
    record: Record | None = None
    staged: Mapping[tuple[int, int], int] | None = None
    tallies: tuple[Tally, ...] = ()
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
    outcomes: list[Outcome] = []
    for tally in facts.tallies:
        outcome = _node(request, facts, tally)
        if isinstance(outcome, Decision):
            return outcome
        outcomes.append(outcome)
    rows = sum(tally.rows for tally in facts.tallies)
    known = sum(outcome.left for outcome in outcomes)
    reply = Committed(request.version, rows - known, known, already=False)
    change = _change(request, facts, rows, tuple(outcomes))
    return Decision(reply, (change,), tuple(_announce(request.by.bare, facts.tallies)))


def _node(request: CommitVersion, facts: CommitFacts, tally: Tally) -> Outcome | Decision:
    """Return what the winners do to one node, or the refusal of them all."""
    node = tally.node
    if node is None:
        return refuse(Refusal.NODE_NOT_FOUND, f"node {tally.name} is no more")
    as_publish = Publish(request.by, node.name, ())
    may = PublishFacts(facts.now, node, tally.affiliation, tally.subscribed, ())
    if (no := inadmissible(as_publish, may, node)) is not None:
        return no
    places: Counter[Place] = Counter()
    for found in tally.found:
        place = PLACES[found.known, found.state] if node.config.queueing else Place.REPLACE
        if place in TAKEN:
            refusal, words = TAKEN[place]
            return refuse(refusal, f"{words.format(found.first)} (node {node.name})")
        places[place] += found.count
    outcome = Outcome(
        node.name,
        queueing=node.config.queueing,
        added=tally.ids - places.total(),
        replaced=places[Place.REPLACE],
        left=places[Place.LEAVE] + tally.rows - tally.ids,
    )
    if overfull(node, outcome.added, 0):
        return refuse(Refusal.NODE_FULL, limit=node.config.max_items)
    return outcome


def _change(
    request: CommitVersion, facts: CommitFacts, items: int, outcomes: tuple[Outcome, ...]
) -> Commit:
    who = request.by.bare
    return Commit(
        *(request.app, who, request.version, facts.now, outcomes),
        items=items,
        bytes=facts.bytes,
        told=request.told,
    )


def _announce(publisher: Jid, tallies: Iterable[Tally]) -> Iterable[Notice]:
    """Tell the subscribers of plain nodes; a queue's items are handed out, not announced."""
    for tally in tallies:
        for draft in tally.drafts:
            for jid in tally.audience:
                yield Announce(jid, tally.name, draft, publisher)
