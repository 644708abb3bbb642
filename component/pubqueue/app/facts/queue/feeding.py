"""Facts for a publish that feeds more copies than one commit may add: its queues, its mark, and the next copies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pubqueue.app.facts.queue.publishing import for_publish, met
from pubqueue.app.store.listings import Unfed
from pubqueue.app.store.rows import FED_MESSAGES, FEEDINGS
from pubqueue.model.entities import digest
from pubqueue.model.records import marked, message, name_of_message
from pubqueue.rules import filters
from pubqueue.rules.publish import (
    JUDGED,
    ROOM,
    SLICE,
    Copy,
    LookFacts,
    MarkFacts,
    ResumeFacts,
    SliceFacts,
)

if TYPE_CHECKING:
    from pubqueue.app.facts.context import Context
    from pubqueue.model.entities import Draft, Node, NodeName
    from pubqueue.model.records import Feeding, MarkedPublish
    from pubqueue.rules.publish import FeedSlice, LookAtFed, MarkPublish


def for_look(context: Context, request: LookAtFed) -> LookFacts:
    """Return the next queues that the node feeds, as many as are judged in one slice."""
    node = context.rows.node(request.publish.node)
    if node is None:
        return LookFacts(None, (), 0, ends=True)
    many = max(1, JUDGED // len(request.publish.drafts))
    looked = request.looked + many
    feeds = node.config.feeds[request.looked : looked]
    found = [context.rows.node(feed.queue) for feed in feeds]
    queues = tuple([queue for queue in found if queue is not None])
    return LookFacts(node, queues, looked, ends=looked >= len(node.config.feeds))


def for_mark(context: Context, request: MarkPublish) -> MarkFacts:
    """Return what a publish has to know, and a mark for it."""
    queues = [context.rows.node(name) for name, _ in request.grown]
    allowances = {q.name: context.allowance(q.creator) for q in queues if q is not None}
    return MarkFacts(for_publish(context, request.publish), _mark(context, request), allowances)


def _mark(context: Context, request: MarkPublish) -> str:
    """Return a mark that is not there. Marks are in the order of time, so the oldest is resumed first."""
    wanted = request.publish
    ids = "\x1f".join([wanted.node, wanted.by.account, *(draft.id for draft in wanted.drafts)])
    beginning = f"{context.now:015d}.{digest(ids.encode()).hex()[:16]}"
    number = 0
    while context.rows.row(FEEDINGS, f"{beginning}.{number}") is not None:
        number += 1
    return f"{beginning}.{number}"


def for_slice(context: Context, request: FeedSlice) -> SliceFacts:
    """Return the next copies of a marked publish."""
    row = context.rows.row(FEEDINGS, request.mark)
    if row is None:
        return SliceFacts(None)
    what, width = marked(row), len(marked(row).queues)
    last = min(row.place + SLICE, what.copies)
    drafts = {n: _message(context, row, n) for n in range(row.place // width, -(-last // width))}
    copies: list[Copy] = []
    size, place = 0, row.place
    while place < last and size < ROOM:
        number, at = divmod(place, width)
        draft = drafts[number]
        copy = None if draft is None else _copy(context, what, draft, what.queues[at])
        if copy is not None:
            copies.append(copy)
            size += len(copy.draft.payload)
        place += 1
    return SliceFacts(row, tuple(copies), place)


def _message(context: Context, row: Feeding, number: int) -> Draft | None:
    found = context.rows.row(FED_MESSAGES, name_of_message(row.mark, number))
    return None if found is None else message(found)


def _copy(context: Context, what: MarkedPublish, draft: Draft, name: NodeName) -> Copy | None:
    """Return a copy, unless the queue is gone, was made later under its name, or does not want it."""
    queue: Node | None = context.rows.node(name)
    if queue is None or not queue.config.queueing or queue.created > what.at:
        return None
    known = met(context, queue, draft, filters.indexed(draft.headers))
    return None if known is None else Copy(draft, queue, known)


def for_resume(context: Context, _request: object) -> ResumeFacts:
    """Return the oldest mark."""
    return ResumeFacts(next(iter(context.rows.page(Unfed())), None))
