"""Leads a queue to a moment, and how long what is done is kept for that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.model.changes import DropRow, PutRow, RemoveItem, Revive
from pubqueue.model.decision import Decision, Done, LookedThrough, Refusal, Refused, Request, refuse
from pubqueue.model.entities import Millis, NodeName, later, seconds
from pubqueue.model.notices import Retracted
from pubqueue.model.records import SeekMark
from pubqueue.rules import nodes
from pubqueue.rules.room import slice_of
from pubqueue.rules.settle import to_holders

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pubqueue.model.changes import Change
    from pubqueue.model.decision import Reply
    from pubqueue.model.entities import Item, ItemId, Node, NodeConfig, Principal
    from pubqueue.rules.nodes import NodeFacts


# Leads a queue to a moment: what was published before it is done, and what was done of the rest waits again.
#
# It concerns what was there when it was asked for. What is published later, or settled later, stays as it is, however long the seek takes:
# it goes slice by slice, first through the queue, then through what is done. The queue has a mark meanwhile, by which any process goes on
# with it, from the beginning: each step may be made again. Another seek replaces the mark, and ends the one before.

MAX_BYTES: Final = 4 << 20
"""Bytes of the items that one step moves, about: a payload is written where it moves to."""


class Seek(Request, frozen=True, gc=False):
    """Lead the queue to a moment, back or on. An owner may; the reply comes when it is there."""

    by: Principal
    node: NodeName
    since: Millis


class SeekFacts(Struct, frozen=True, gc=False):
    """What a purge needs; the number of the queue's newest item; and the mark of a seek that is under way."""

    around: NodeFacts
    newest: int = 0
    mark: SeekMark | None = None


class SeekItems(Request, frozen=True, gc=False):
    """Go on with a seek: in the queue behind the number `after`; or in what is done, behind a `place`.

    `reply` is for who waits for the end.
    """

    mark: SeekMark
    reply: Reply | None = None
    after: int = 0
    place: tuple[int, int] | None = None

    @property
    def node(self) -> NodeName:
        """The queue."""
        return self.mark.node


class SeekItemsFacts(Struct, frozen=True, gc=False):
    """The queue, with its mark; and the next items there, or of what is done: then `there` are ids of these that the queue has."""

    now: Millis
    node: Node | None
    mark: SeekMark | None
    items: tuple[Item, ...] = ()
    there: frozenset[ItemId] = frozenset()


class ResumeSeeks(Request, frozen=True, gc=False):
    """Go on with a seek that was under way when a process ended."""


class ResumeSeeksFacts(Struct, frozen=True, gc=False):
    """The mark of a seek that is under way."""

    mark: SeekMark | None


def seek(request: Seek, facts: SeekFacts) -> Decision:
    """Begin a seek. To now, or to a later moment, it is a purge of a queue that does not keep what is done."""
    around = facts.around
    purge = nodes.purge(nodes.Purge(request.by, request.node), around)
    node, now = around.node, around.now
    if isinstance(purge.reply, Refused) or node is None:
        return purge
    if not node.config.queueing:
        return refuse(Refusal.NOT_A_QUEUE)
    if request.since >= now and not keeps(node.config) and facts.mark is None:
        return purge
    mark = SeekMark(node.name, request.since, now, facts.newest)
    return Decision(Done(), (PutRow(mark),), then=SeekItems(mark, Done()))


def resume(_request: ResumeSeeks, facts: ResumeSeeksFacts) -> Decision:
    """Go on with a seek."""
    return Decision(Done(), then=None if facts.mark is None else SeekItems(facts.mark))


def seek_items(request: SeekItems, facts: SeekItemsFacts) -> Decision:
    """Make a step of a seek, unless the queue is gone, or led to another moment since."""
    node = facts.node
    if node is None or facts.mark != request.mark:
        return Decision(request.reply or Done())
    if request.place is None:
        return _finish_older(request, facts, node)
    return _bring_back(request, facts, node)


def _finish_older(request: SeekItems, facts: SeekItemsFacts, node: Node) -> Decision:
    """Retract what is older, by any holder. Numbers are nearly in the order of publishes: no slice follows one without older items."""
    mark = request.mark
    items = slice_of(facts.items, MAX_BYTES)
    older = [item for item in items if item.published < mark.since and _was_there(item, mark)]
    done_at = facts.now if keeps(node.config) else None
    changes = tuple([RemoveItem(item, done_at=done_at) for item in older])
    then = replace(request, place=(mark.since, 0))
    if older and _goes_on(items, facts.items):
        then = replace(request, after=items[-1].seq)
    return Decision(Done(), changes, to_holders(Retracted, node.name, older), then=then)


def _was_there(item: Item, mark: SeekMark) -> bool:
    """Return whether the item was there when the seek was asked for: by its number too, for a moment is long, and clocks differ."""
    return item.published <= mark.at and item.seq <= mark.through


def _bring_back(request: SeekItems, facts: SeekItemsFacts, node: Node) -> Decision:
    """Revive what was done when the seek was asked for, unless it is too old, or the queue has another item of its id."""
    items = slice_of(facts.items, MAX_BYTES) if keeps(node.config) else ()
    there = set(facts.there)
    changes: list[Change] = []
    for item in items:
        was_done = item.taken is not None and item.taken <= request.mark.at
        if was_done and item.id not in there and not is_over(item, node.config, facts.now):
            there.add(item.id)
            changes.append(Revive(item, node.name, end_of(item, node.config)))
    if items and _goes_on(items, facts.items):
        place = items[-1].published, items[-1].seq
        return Decision(Done(), tuple(changes), then=replace(request, place=place))
    changes.append(DropRow(SeekMark, node.name))
    then = ResumeSeeks() if request.reply is None else None
    return Decision(request.reply or Done(), tuple(changes), then=then)


def _goes_on(taken: Sequence[Item], found: Sequence[Item]) -> bool:
    """Return whether there may be more items."""
    return len(taken) < len(found) or len(found) == SEEK_SLICE


# How long what is done is kept in a queue that keeps it, and how much of it: so many seconds since it was published, or done, so many
# items and bytes.
#
# It refuses nothing and delays no request: what is too old, or too much, is dropped slice by slice from time to time, the oldest first.
# Until then it is not brought back either, if it is too old.

SEEK_SLICE: Final = 500
"""Items that one step takes."""

SEEK_LOOKED_AT: Final = 100
"""Queues that one step looks at."""


class DropDone(Request, frozen=True, gc=False):
    """Drop what is done and no longer kept, in the next queues behind `after`, by name."""

    after: NodeName = NodeName("")


class DropDoneFacts(Struct, frozen=True, gc=False):
    """The first queue in which something has to go, with its oldest items; and where the next look begins, empty at the end."""

    now: Millis
    node: Node | None = None
    items: tuple[Item, ...] = ()
    next: NodeName = NodeName("")


def keeps(config: NodeConfig) -> bool:
    """Return whether the node keeps what is done."""
    return config.queueing and config.keep_done


def end_of(item: Item, config: NodeConfig) -> Millis | None:
    """Return when the life of an item ends, by its own time to live and by what the queue allows; None: never."""
    ends = [] if item.expires is None else [item.expires]
    if config.item_expire is not None:
        ends.append(later(item.published, seconds(config.item_expire)))
    return min(ends, default=None)


def is_over(item: Item, config: NodeConfig, now: Millis) -> bool:
    """Return whether the life of an item that is done has ended, or the time for which it is kept."""
    ends = [end_of(item, config)]
    if config.done_ttl is not None and item.taken is not None:
        ends.append(later(item.taken, seconds(config.done_ttl)))
    return any(end is not None and end <= now for end in ends)


def surplus(node: Node, oldest: Sequence[Item], now: Millis) -> Sequence[Item]:
    """Return those of the oldest items that are done which have to go now."""
    if not keeps(node.config):
        return oldest
    config, count = node.config, 0
    beyond = 0 if config.done_max is None else node.done - config.done_max
    left = node.done_bytes - (config.max_bytes or node.done_bytes)
    for item in oldest:
        if left <= 0 and count >= beyond and not is_over(item, config, now):
            break
        left -= item.size
        count += 1
    return oldest[:count]


def drop_done(request: DropDone, facts: DropDoneFacts) -> Decision:
    """Drop a slice, and look again; or return how far everything was looked through."""
    node = facts.node
    gone = () if node is None else slice_of(surplus(node, facts.items, facts.now))
    if not gone:
        return Decision(LookedThrough(facts.next))
    return Decision(LookedThrough(request.after), tuple(map(RemoveItem, gone)), then=request)
