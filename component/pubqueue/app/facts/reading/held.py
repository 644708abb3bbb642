"""Facts for the items that an address holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pubqueue.rules.settle import HeldFacts

if TYPE_CHECKING:
    from pubqueue.app.facts.context import Context
    from pubqueue.rules.settle import ReadHeld


def for_held(context: Context, request: ReadHeld) -> HeldFacts:
    """Return the items of the node that are locked to exactly this address."""
    rows = context.rows
    items, _ = rows.held_by(request.by.jid)
    return HeldFacts(
        tuple([(item, rows.payload(item)) for item in items if item.node == request.node])
    )
