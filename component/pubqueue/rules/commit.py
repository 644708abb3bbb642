"""Commit: the winners of a version appear together, in one transaction over all nodes, or none does.

There may be a million of them, so the rule sees no items but classes of them, with their counts and the
first id of each. The table that decides single publishes decides about each class. Of several winners
under one id only the last counts.

If a single publish would be refused, because its id belongs to an item that is locked, or dead with
another payload, the principal chooses: all is refused, or such winners are left out, or they go to a
dead-letter node. In each case they are counted, and the first of them are named.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.model import transactions
from pubqueue.model.decision import Decision, Refusal, Refused, Request, refuse
from pubqueue.model.notices import announce
from pubqueue.rules.publication import PLACES, Known, Place, Publish, PublishFacts
from pubqueue.rules.publish import inadmissible
from pubqueue.rules.room import Growth, full, overdrawn_together
from pubqueue.rules.staging import barred, done, one_app_too_many, unkept

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pubqueue.model.changes import Change
    from pubqueue.model.entities import (
        Affiliation,
        Draft,
        ItemId,
        Jid,
        Millis,
        Node,
        NodeName,
        Principal,
        State,
    )
    from pubqueue.model.notices import Audience, News
    from pubqueue.rules.room import Allowance


NAMED: Final = 20
"""Up to how many taken ids are named."""

TAKEN: Final = {
    Place.BUSY: (Refusal.ITEM_LOCKED, "in flight"),
    Place.HELD: (Refusal.ITEM_LOCKED, "held until a signal comes"),
    Place.DEAD: (Refusal.ITEM_EXISTS, "dead here, to be redriven or retracted"),
}
"""The places that refuse a winner, with the text about its id."""


class Part(Struct, frozen=True, gc=False):
    """The attempt that stands for a part, and how many items it has staged."""

    number: int
    attempt: int
    items: int


class CommitVersion(Request, frozen=True, gc=False):
    """Publish the items that these attempts have staged for the version, and drop the rest.

    With `progress` a request for a commit that goes in slices is answered at once: with how far it is
    (`AtWork`), or with its end.
    """

    by: Principal
    app: str
    version: int
    parts: tuple[Part, ...]
    totals: transactions.Totals = transactions.NO_TOTALS
    on_taken: transactions.OnTaken = transactions.OnTaken.FAIL
    dead_letter_node: NodeName | None = None
    progress: bool = False


class LookAtWinners(Request, frozen=True, gc=False):
    """Judge the winners of a commit after `after`, a part and a row of it.

    `added` is how many items the ones before them add to each node, `grown` how many bytes, `known` how
    many change nothing, `taken` how many cannot have their ids, and `aside` the bytes of these; the
    first of them are `named`. `judged` is the number of all of them.
    """

    commit: CommitVersion
    after: tuple[int, int] | None = None
    added: tuple[tuple[NodeName, int], ...] = ()
    known: int = 0
    taken: int = 0
    named: tuple[transactions.TakenId, ...] = ()
    grown: tuple[tuple[NodeName, int], ...] = ()
    aside: int = 0
    judged: int = 0


class WinnerCount(Struct, frozen=True, gc=False):
    """The number of winners in this class; `first` is one of them."""

    known: Known
    state: State | None
    count: int
    first: ItemId


class CommitNodeFacts(Struct, frozen=True, gc=False):
    """The winners of one node: their rows, their ids, and what the node knows of these already."""

    name: NodeName
    node: Node | None
    affiliation: Affiliation
    subscribed: bool
    rows: int
    ids: int
    found: tuple[WinnerCount, ...] = ()
    taken: tuple[transactions.TakenId, ...] = ()
    """The first of the items whose ids are taken."""
    audience: Audience = ()
    drafts: tuple[Draft, ...] = ()
    """The items of a plain node with subscribers: they are announced."""
    allowance: Allowance | None = None
    """Of the account that created the node; None if it has no limits."""
    grown: int = 0
    """How many bytes they add to the node, except winners whose ids are taken; known only for nodes with `max_bytes`."""
    aside: int = 0
    """The bytes of winners whose ids are taken, likewise."""
    behind: bool = False
    """True if so many notices to them are still waiting that no more may be added now."""


class CommitFacts(Struct, frozen=True, gc=False):
    """The app, what each attempt has staged for the version, and the classes of the named ones in each node.

    `bytes` is the size of the named. `noted` counts the named items of an immediate version, and those of
    them that were known.
    """

    now: Millis
    app: transactions.App | None
    open: transactions.OpenVersion | None = None
    record: transactions.Record | None = None
    staged: Mapping[tuple[int, int], int] | None = None
    nodes: tuple[CommitNodeFacts, ...] = ()
    bytes: int = 0
    noted: tuple[int, int] = (0, 0)
    too_many: bool = False
    """There are more winners than one batch can hold, or some are of groups, or of nodes that feed queues: they are not looked at yet."""
    grouped: bool = False
    """Some of the named are of groups: each has to take its place in its group."""
    dead_letters: CommitNodeFacts | None = None
    """The node for winners whose ids are taken, if it exists; without winners of its own."""
    limits: transactions.Limits = transactions.DEFAULTS
    apps: int = 0
    """How many apps the account has, if this one is new: a commit without items makes it known."""


def objection(request: CommitVersion, facts: CommitFacts) -> Decision | None:
    """Return the answer to a commit that can be decided without looking at its items, None for any other."""
    if (no := barred(request.by, facts.app, facts.open, request.version)) is not None:
        return no
    if done(facts.app, request.version):
        record = facts.record
        items = 0 if record is None or record.damaged else record.items
        return Decision(transactions.Committed(request.version, items, 0, already=True))
    if (no := one_app_too_many(facts.app, facts.apps, facts.limits)) is not None:
        return no
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
    """Decide a commit. A refusal leaves everything staged, and nothing visible.

    A request for the progress of a committed version may mean one whose winners are still moved.
    """
    if (no := objection(request, facts)) is not None:
        if request.progress and isinstance(no.reply, transactions.Committed):
            return replace(no, then=LookAtWinners(request))
        return no
    if facts.open is not None and facts.open.immediate:
        rows, known = facts.noted
        reply = transactions.Committed(request.version, rows - known, known, already=False)
        return Decision(reply, (_change(request, facts, rows, ()),))
    if facts.too_many:
        reason = "the service stopped before the commit"
        return Decision(Refused(Refusal.STORE_FAILED, reason), then=LookAtWinners(request))
    nodes: list[transactions.CommittedNode] = []
    for winners in facts.nodes:
        committed = _node(request, facts, winners)
        if isinstance(committed, Decision):
            return committed
        nodes.append(committed)
    taken = sum(found.count for winners in facts.nodes for found, _ in _taken(winners))
    changes: list[Change] = []
    if taken:
        request = _with_skipped(request, taken)
        aside = _set_aside(request, facts, nodes, taken)
        if isinstance(aside, Decision):
            return aside
        changes.append(aside)
    if (over := _overdrawn(facts, nodes)) is not None:
        return Decision(over)
    rows = sum(winners.rows for winners in facts.nodes)
    known = sum(committed.left for committed in nodes)
    named = tuple(one for winners in facts.nodes for one in winners.taken)[:NAMED]
    reply = transactions.Committed(
        request.version, rows - known - taken, known, already=False, taken=taken, named=named
    )
    kept = rows - (taken if request.on_taken is transactions.OnTaken.SKIP else 0)
    changes.append(_change(request, facts, kept, tuple(nodes)))
    return Decision(reply, tuple(changes), tuple(_announce(request.by.account, facts.nodes)))


def _node(
    request: CommitVersion, facts: CommitFacts, winners: CommitNodeFacts
) -> transactions.CommittedNode | Decision:
    """Return the effect of the winners on one node, or the refusal of them all."""
    node = winners.node
    if node is None:
        return refuse(Refusal.NODE_NOT_FOUND, f"node {winners.name} no longer exists")
    as_publish = Publish(request.by, node.name, ())
    may = PublishFacts(facts.now, node, winners.affiliation, winners.subscribed, ())
    if (no := inadmissible(as_publish, may, node)) is not None:
        return no
    if (no := unkept(node)) is not None:
        return no
    if winners.behind:
        reason = f"earlier notifications of node {node.name} are still being sent"
        return refuse(Refusal.STILL_NOTIFYING, reason)
    places: Counter[Place] = Counter()
    for found in winners.found:
        places[_place(node, found)] += found.count
    committed = transactions.CommittedNode(
        node.name,
        queueing=node.config.queueing,
        added=winners.ids - places.total(),
        replaced=places[Place.REPLACE],
        left=places[Place.LEAVE] + winners.rows - winners.ids,
    )
    no_room = full(node, Growth(committed.added, winners.grown))
    return committed if no_room is None else Decision(no_room)


def _overdrawn(facts: CommitFacts, nodes: Iterable[transactions.CommittedNode]) -> Refused | None:
    """Refuse more than the accounts that created the nodes may have; items that do not change take no room."""
    payers = {winners.name: winners.allowance for winners in facts.nodes}
    if (place := facts.dead_letters) is not None:
        payers[place.name] = place.allowance
    return overdrawn_together(((payers[one.node], one.added) for one in nodes), facts.bytes)


def _place(node: Node, found: WinnerCount) -> Place:
    return PLACES[found.known, found.state] if node.config.queueing else Place.REPLACE


def _taken(winners: CommitNodeFacts) -> list[tuple[WinnerCount, Place]]:
    """Return the classes of winners that cannot have their ids, and why."""
    node = winners.node
    found = () if node is None else tuple((it, _place(node, it)) for it in winners.found)
    return [(it, place) for it, place in found if place in TAKEN]


def _with_skipped(request: CommitVersion, taken: int) -> CommitVersion:
    """Add the winners that are set aside to the bad rows that the writer reports itself."""
    totals = request.totals
    if request.on_taken is transactions.OnTaken.SKIP:
        return replace(request, totals=replace(totals, skipped=(totals.skipped or 0) + taken))
    dead_lettered = (totals.dead_lettered or 0) + taken
    return replace(request, totals=replace(totals, dead_lettered=dead_lettered))


def _set_aside(
    request: CommitVersion, facts: CommitFacts, nodes: list[transactions.CommittedNode], taken: int
) -> transactions.SetAside | Decision:
    """Return what becomes of winners that cannot have their ids, with their new node among `nodes`."""
    match request.on_taken:
        case transactions.OnTaken.FAIL:
            return _refused(facts, taken)
        case transactions.OnTaken.SKIP:
            return transactions.SetAside(None, facts.now)
        case transactions.OnTaken.DEAD_LETTER:
            sizes = {winners.name: winners.grown for winners in facts.nodes}
            coming = Growth(taken, sum(winners.aside for winners in facts.nodes))
            place = dead_letters(request, facts, nodes, coming, sizes)
            if isinstance(place, Decision):
                return place
            nodes[:] = [one for one in nodes if one.node != place.node] + [place]
            return transactions.SetAside(place.node, facts.now)


def _refused(facts: CommitFacts, taken: int) -> Decision:
    """Name the ids of each node and class, as many as there is room for."""
    return refused(
        [
            (
                winners.name,
                place,
                [it.id for it in winners.taken if it.state is found.state] or [found.first],
            )
            for winners in facts.nodes
            for found, place in _taken(winners)
        ],
        taken,
    )


def refused(classes: Iterable[tuple[NodeName, Place, list[ItemId]]], taken: int) -> Decision:
    """Refuse a commit for ids that are taken: their number, and as many of these as there is room for."""
    clauses: list[str] = []
    refusals: list[Refusal] = []
    named = 0
    for node, place, names in classes:
        refusal, words = TAKEN[place]
        refusals.append(refusal)
        ids = names[: NAMED - named]
        named += len(ids)
        if ids:
            verb = "item {} is" if len(ids) == 1 else "items {} are"
            clauses.append(f"{verb.format(', '.join(ids))} {words} (node {node})")
    if named < taken:
        clauses.append(f"and {taken - named} more")
    return refuse(min(refusals, key=list(Refusal).index), "; ".join(clauses))


def dead_letters(
    request: CommitVersion,
    facts: CommitFacts,
    nodes: Iterable[transactions.CommittedNode],
    coming: Growth,
    grown: Mapping[NodeName, int],
) -> transactions.CommittedNode | Decision:
    """Return the effect on the dead-letter node, or why it refuses the items.

    `nodes` and `grown` are the effects of the winners in any case, `coming` those whose ids are taken.
    """
    place = facts.dead_letters
    node = None if place is None else place.node
    if place is None or node is None:
        name = request.dead_letter_node
        return refuse(Refusal.NODE_NOT_FOUND, f"the dead-letter node {name} does not exist")
    if not node.config.queueing:
        return refuse(Refusal.NOT_A_QUEUE, f"the dead-letter node {node.name} is not a queue")
    may = PublishFacts(facts.now, node, place.affiliation, place.subscribed, ())
    if (no := inadmissible(Publish(request.by, node.name, ()), may, node)) is not None:
        return no
    nothing = transactions.CommittedNode(node.name, queueing=True, added=0, replaced=0, left=0)
    before = next((one for one in nodes if one.node == node.name), nothing)
    added = before.added + coming.items
    if (no_room := full(node, Growth(added, grown.get(node.name, 0) + coming.bytes))) is not None:
        return Decision(no_room)
    return replace(before, added=added)


def _change(
    request: CommitVersion,
    facts: CommitFacts,
    items: int,
    nodes: tuple[transactions.CommittedNode, ...],
) -> transactions.Commit:
    who = request.by.account
    return transactions.Commit(
        *(request.app, who, request.version, facts.now, nodes),
        items=items,
        bytes=facts.bytes,
        totals=request.totals,
    )


def _announce(publisher: Jid, nodes: Iterable[CommitNodeFacts]) -> Iterable[News]:
    """Notify the subscribers of plain nodes; a queue's items are delivered, not announced."""
    for winners in nodes:
        for draft in winners.drafts:
            if winners.node is not None:
                yield from announce(winners.node, winners.audience, draft, publisher)
