"""Facts for seeks, and for what is done and kept: slices of the queue, and of what is done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pubqueue.app.facts.nodes.managing import for_node
from pubqueue.app.facts.oldest import oldest
from pubqueue.app.store.item_listings import DoneItems, NewestItem
from pubqueue.app.store.listings import Keeping, Seeks
from pubqueue.app.store.rows import SEEKS
from pubqueue.core.model import NodeName
from pubqueue.core.nodes.manage import Purge
from pubqueue.core.queue.retention import kept
from pubqueue.core.queue.retention.kept import LOOKED_AT, DropDoneFacts
from pubqueue.core.queue.retention.seek import ResumeSeeksFacts, SeekFacts, SeekItemsFacts

if TYPE_CHECKING:
    from pubqueue.app.facts.context import Context
    from pubqueue.core.queue.retention.kept import DropDone
    from pubqueue.core.queue.retention.seek import ResumeSeeks, Seek, SeekItems


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
        found = oldest(rows, name, kept.SLICE, request.after)
        return SeekItemsFacts(context.now, known.node, known.mark, found)
    done = tuple(rows.page(DoneItems(name), request.place, kept.SLICE))
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
    names = rows.page(Keeping(), request.after or None, LOOKED_AT)
    nodes = [node for name in names if (node := rows.counted(name)) is not None]
    for node in nodes:
        if kept.surplus(node, rows.page(DoneItems(node.name)), now):
            found = rows.page(DoneItems(node.name), None, kept.SLICE)
            return DropDoneFacts(now, node, tuple(found))
    last = names[-1] if len(names) == LOOKED_AT else NodeName("")
    return DropDoneFacts(now, next=last)
