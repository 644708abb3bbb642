"""For those who retrieve items or redrive them: what they may see, as much as fits into one answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.app.facts.context import LARGEST_ANSWER
from pubqueue.app.listings import DeadItems, Items
from pubqueue.core.queue import redrive
from pubqueue.core.queue.redrive import Candidate, RedriveFacts
from pubqueue.core.reading import retrieve
from pubqueue.core.reading.retrieve import RetrieveFacts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pubqueue.app.facts.context import Context
    from pubqueue.app.working_set import WorkingSet
    from pubqueue.core.model import Item, ItemId, Jid
    from pubqueue.core.queue.redrive import Redrive
    from pubqueue.core.reading.retrieve import Retrieve

    Rows = list[tuple[Item, bytes]]

LONGEST_PAGE: Final = 500
"""Items in one answer at most."""

REVIVED: Final = 1000
"""Dead items that one redrive without names takes at most."""


def for_redrive(context: Context, request: Redrive) -> RedriveFacts:
    """Return the dead, and the nodes that they may go to."""
    rows = context.rows
    node = rows.node(request.node)
    affiliation = rows.affiliation(request.node, request.by.account)
    may = redrive.objection(request.by, node, affiliation) is None
    dead, missing = _dead(rows, request) if may else ([], ())
    candidates = tuple(_candidate(rows, request, item) for item in dead)
    names = {request.to} if request.to else {one.origin for one in candidates}
    nodes = [(name, rows.counted(name)) for name in names if name]
    return RedriveFacts(
        now=context.now,
        node=node,
        affiliation=affiliation,
        candidates=candidates,
        missing=missing,
        targets={
            name: (target, rows.affiliation(name, request.by.account))
            for name, target in nodes
            if target is not None
        },
    )


def _dead(rows: WorkingSet, request: Redrive) -> tuple[list[Item], tuple[ItemId, ...]]:
    if request.ids is None:
        return rows.page(DeadItems(request.node), None, REVIVED), ()
    found = [rows.item(request.node, name) for name in request.ids]
    there = [item for item in found if item is not None]
    known = {item.id for item in there}
    return there, tuple(name for name in request.ids if name not in known)


def _candidate(rows: WorkingSet, request: Redrive, item: Item) -> Candidate:
    candidate = Candidate(item, taken=False)
    to = request.to or candidate.origin or item.node
    taken = to != item.node and rows.item(to, item.id) is not None
    return Candidate(item, taken)


def for_retrieve(context: Context, request: Retrieve) -> RetrieveFacts:
    """Return the rows asked for, as many as fit into one answer; none to whom it may not see any."""
    rows, asker = context.rows, request.by
    node = rows.node(request.node)
    affiliation = rows.affiliation(request.node, asker.account)
    subscribed = rows.subscribed(request.node, asker.account)
    no = retrieve.objection(asker, node, affiliation, subscribed=subscribed)
    if no is not None or node is None:
        return RetrieveFacts(node, affiliation, subscribed, (), whole=True)
    everything = retrieve.sees_all(asker, node, affiliation)
    after = None if request.after is None else rows.item(node.name, request.after)
    holders = None if everything else (asker.jid, asker.account)
    found, whole = _page(rows, request, holders, 0 if after is None else after.seq)
    missing = request.after is not None and after is None
    return RetrieveFacts(
        node, affiliation, subscribed, tuple(found), whole=whole, after_missing=missing
    )


def _page(
    rows: WorkingSet, request: Retrieve, holders: Sequence[Jid] | None, after: int
) -> tuple[Rows, bool]:
    """Return rows, oldest first, and whether none was left out for want of room."""
    only = None if holders is None else tuple(holders)
    if request.ids:
        named = [rows.item(request.node, name) for name in dict.fromkeys(request.ids)]
        there = sorted((item for item in named if item is not None), key=lambda item: item.seq)
        found = [(item, rows.payload(item)) for item in there]
    elif request.newest is not None:
        listing = Items(request.node, only, newest=True)
        found = rows.page(listing, None, min(request.newest, LONGEST_PAGE))
    else:
        limit = LONGEST_PAGE if request.page is None else min(request.page, LONGEST_PAGE)
        found = rows.page(Items(request.node, only), after, limit + 1)
        return _fitting(found[:limit], more=len(found) > limit)
    return _fitting(found, more=False)


def _fitting(rows: Rows, *, more: bool) -> tuple[Rows, bool]:
    size = 0
    for count, (_, payload) in enumerate(rows):
        size += len(payload)
        if size > LARGEST_ANSWER and count:
            return rows[:count], False
    return rows, not more
