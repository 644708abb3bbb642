"""Load for those who look at items or revive them: pages of rows, and the dead with their places."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.core.model import Affiliation
from pubqueue.core.redrive import Grave, RedriveFacts
from pubqueue.core.retrieve import RetrieveFacts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pubqueue.app.facts import Context
    from pubqueue.app.ports import Transaction
    from pubqueue.core.model import Item, ItemId, Jid, NodeName
    from pubqueue.core.redrive import Redrive
    from pubqueue.core.retrieve import Retrieve

    Rows = list[tuple[Item, bytes]]

LONGEST_PAGE: Final = 500
"""Items in one answer at most."""

LARGEST_PAGE: Final = 196_608
"""Bytes of payload in one answer at most: servers refuse stanzas above 256 KiB."""

REVIVED: Final = 1000
"""Dead items that one redrive without names takes at most."""


def for_redrive(context: Context, request: Redrive) -> RedriveFacts:
    """Load the dead, and the nodes that they may go to."""
    tx = context.tx
    rows, missing = _dead(tx, request)
    names = {request.to} if request.to else {origin for _, origin in rows}
    nodes = [(name, tx.node(name)) for name in names if name]
    return RedriveFacts(
        now=context.now,
        node=tx.node(request.node),
        affiliation=tx.affiliation(request.node, request.by.bare),
        graves=tuple(_grave(tx, request, item, origin) for item, origin in rows),
        missing=missing,
        targets={
            name: (node, tx.affiliation(name, request.by.bare))
            for name, node in nodes
            if node is not None
        },
    )


def _dead(
    tx: Transaction, request: Redrive
) -> tuple[list[tuple[Item, NodeName | None]], tuple[ItemId, ...]]:
    if request.ids is None:
        return tx.dead(request.node, REVIVED), ()
    found = [tx.item(request.node, name) for name in request.ids]
    rows = [(item, tx.origin(item)) for item in found if item is not None]
    there = {item.id for item, _ in rows}
    return rows, tuple(name for name in request.ids if name not in there)


def _grave(tx: Transaction, request: Redrive, item: Item, origin: NodeName | None) -> Grave:
    to = request.to or origin or item.node
    taken = to != item.node and tx.item(to, item.id) is not None
    return Candidate(item, taken)


def for_retrieve(context: Context, request: Retrieve) -> RetrieveFacts:
    """Load the rows asked for, as many as fit into one answer."""
    tx, asker = context.tx, request.by
    node = tx.node(request.node)
    affiliation = tx.affiliation(request.node, asker.bare)
    subscribed = tx.subscribed(request.node, asker.bare)
    if node is None:
        return RetrieveFacts(None, affiliation, subscribed, (), whole=True)
    sees_all = asker.admin or affiliation in {Affiliation.OWNER, Affiliation.PUBLISHER}
    only = None if sees_all or not node.config.queueing else (asker.jid, asker.bare)
    after = None if request.after is None else tx.item(node.name, request.after)
    rows, whole = _page(tx, request, only, 0 if after is None else after.seq)
    missing = request.after is not None and after is None
    deaths = tx.deaths(node.name, rows[0][0], rows[-1][0]) if rows else []
    there = {item.id for item, _ in rows}
    return RetrieveFacts(
        node=node,
        affiliation=affiliation,
        subscribed=subscribed,
        items=tuple(rows),
        whole=whole,
        after_missing=missing,
        deaths=tuple(death for death in deaths if death.id in there),
    )


def _page(
    tx: Transaction, request: Retrieve, only: Sequence[Jid] | None, after: int
) -> tuple[Rows, bool]:
    """Return rows, oldest first, and whether none was left out for want of room."""
    if request.ids:
        found = [tx.item(request.node, name) for name in dict.fromkeys(request.ids)]
        there = sorted((item for item in found if item is not None), key=lambda item: item.seq)
        rows = [(item, tx.payload(item)) for item in there]
    elif request.newest is not None:
        rows = tx.newest(request.node, only, min(request.newest, LONGEST_PAGE))
    else:
        limit = LONGEST_PAGE if request.page is None else min(request.page, LONGEST_PAGE)
        rows = tx.oldest(request.node, only, after, limit + 1)
        return _fitting(rows[:limit], more=len(rows) > limit)
    return _fitting(rows, more=False)


def _fitting(rows: Rows, *, more: bool) -> tuple[Rows, bool]:
    size = 0
    for count, (_, payload) in enumerate(rows):
        size += len(payload)
        if size > LARGEST_PAGE and count:
            return rows[:count], False
    return rows, not more
