"""Facts for seeks, and for what is done and kept: slices of the queue, and of what is done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pubqueue.app.facts.nodes.managing import for_node
from pubqueue.app.facts.oldest import oldest
from pubqueue.app.store.item_listings import DoneItems, NewestItem
from pubqueue.app.store.listings import Keeping, Seeks
from pubqueue.app.store.rows import SEEKS
from pubqueue.model.entities import NodeName
from pubqueue.rules import seek
from pubqueue.rules.nodes import Purge
from pubqueue.rules.seek import (
    SEEK_LOOKED_AT,
    DropDoneFacts,
    ResumeSeeksFacts,
    SeekFacts,
    SeekItemsFacts,
)

if TYPE_CHECKING:
    from pubqueue.app.facts.context import Context
    from pubqueue.rules.seek import DropDone, ResumeSeeks, Seek, SeekItems


def for_seek(context: Context, request: Seek) -> SeekFacts:
    """Return what a purge needs, and the newest item."""
    around = for_node(context, Purge(request.by, request.node))
    rows = context.rows
    mark = rows.row(SEEKS, request.node)
    newest = rows.page(NewestItem(request.node, dead=False))
    return SeekFacts(around, sum(newest), mark)


def for_seek_items(context: Context, request: SeekItems) -> SeekItemsFacts:
    """Return the next items that may be older, or that may come back."""
    rows, name = context.rows, request.node
    known = SeekItemsFacts(context.now, rows.node(name), rows.row(SEEKS, name))
    if known.node is None or known.mark != request.mark:
        return known
    if request.place is None:
        found = oldest(rows, name, seek.SEEK_SLICE, request.after)
        return SeekItemsFacts(context.now, known.node, known.mark, found)
    done = tuple(rows.page(DoneItems(name), request.place, seek.SEEK_SLICE))
    there = [item.id for item in done if rows.item(name, item.id) is not None]
    return SeekItemsFacts(context.now, known.node, known.mark, done, frozenset(there))


def for_resume(context: Context, _request: ResumeSeeks) -> ResumeSeeksFacts:
    """Return the mark of a seek that is under way."""
    rows = context.rows
    name = next(iter(rows.page(Seeks())), None)
    return ResumeSeeksFacts(None if name is None else rows.row(SEEKS, name))


def for_drop(context: Context, request: DropDone) -> DropDoneFacts:
    """Return the next queue in which something that is done has to go."""
    rows, now = context.rows, context.now
    names = rows.page(Keeping(), request.after or None, SEEK_LOOKED_AT)
    nodes = [node for name in names if (node := rows.counted(name)) is not None]
    for node in nodes:
        if seek.surplus(node, rows.page(DoneItems(node.name)), now):
            found = rows.page(DoneItems(node.name), None, seek.SEEK_SLICE)
            return DropDoneFacts(now, node, tuple(found))
    last = names[-1] if len(names) == SEEK_LOOKED_AT else NodeName("")
    return DropDoneFacts(now, next=last)
