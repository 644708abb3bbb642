"""The first items of a node, without their payloads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pubqueue.app.store.listings import UNBOUNDED, ItemEntries

if TYPE_CHECKING:
    from pubqueue.app.working_set.working_set import WorkingSet
    from pubqueue.core.model import Item, NodeName


def oldest(rows: WorkingSet, node: NodeName, many: int, after: int = 0) -> tuple[Item, ...]:
    """Return up to n items, the oldest first, after the number `after`."""
    listing = ItemEntries(node, UNBOUNDED, state=None, payloads=False, room=UNBOUNDED)
    return tuple([entry.item for entry in rows.page(listing, after, many)])
