"""Facts for queues that are deleted when they are unused: the next nodes, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pubqueue.app.facts.nodes.managing import around
from pubqueue.app.store.listings import Nodes
from pubqueue.model.entities import NodeName
from pubqueue.rules.declare import SLICE, UnusedFacts, is_kept_for_a_time

if TYPE_CHECKING:
    from pubqueue.app.facts.context import Context
    from pubqueue.rules.declare import DeleteUnused


def for_unused(context: Context, request: DeleteUnused) -> UnusedFacts:
    """Return the next nodes that may have to be deleted."""
    rows = context.rows
    found = rows.page(Nodes(), request.after or None, SLICE)
    last = found[-1].name if len(found) == SLICE else NodeName("")
    names = [node.name for node in found if is_kept_for_a_time(node)]
    there = [rows.counted(name) for name in names]
    queues = [(node, around(context, context.service, node)) for node in there if node is not None]
    return UnusedFacts(context.now, tuple(queues), last)
