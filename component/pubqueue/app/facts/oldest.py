"""The first items of a node, without their payloads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pubqueue.app.store.item_listings import ItemEntries
from pubqueue.app.store.listings import UNBOUNDED

if TYPE_CHECKING:
    from pubqueue.app.working_set.working_set import WorkingSet
    from pubqueue.model.entities import Item, NodeName


def oldest(rows: WorkingSet, node: NodeName, many: int, after: int = 0) -> tuple[Item, ...]:
    """Return up to n items, the oldest first, after the number `after`."""
    if (kept := rows.cache.in_order) is None:
        return _read(rows, node, many, after)
    while (wanted := kept.wanted(node, many)) is not None:  # no part starts after a number
        limit, through = wanted
        found = _read(rows, node, limit, through)
        if rows.gathering or rows.lacking:
            return ()
        kept.know(node, found, limit)
    return kept.first(node, many)


def _read(rows: WorkingSet, node: NodeName, many: int, after: int) -> tuple[Item, ...]:
    listing = ItemEntries(node, UNBOUNDED, state=None, payloads=False, room=UNBOUNDED)
    return tuple([entry.item for entry in rows.page(listing, after, many)])
