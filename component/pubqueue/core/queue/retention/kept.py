"""How long what is done is kept in a queue that keeps it, and how much of it: so many seconds since it was published, so many bytes.

It refuses nothing and delays no request: what is too old, or too much, is dropped slice by slice from time to time, the oldest first.
Until then it is not brought back either, if it is too old.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pubqueue.core.changes import RemoveItem
from pubqueue.core.decision import Decision, LookedThrough
from pubqueue.core.model import Millis, NodeName, later, seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pubqueue.core.model import Item, Node, NodeConfig

SLICE: Final = 500
"""Items that one step takes."""

LOOKED_AT: Final = 100
"""Queues that one step looks at."""


class DropDone(Struct, frozen=True, gc=False):
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
    """Return whether the life of an item has ended."""
    end = end_of(item, config)
    return end is not None and end <= now


def surplus(node: Node, oldest: Sequence[Item], now: Millis) -> Sequence[Item]:
    """Return those of the oldest items that are done which have to go now."""
    if not keeps(node.config):
        return oldest
    count, left = 0, node.done_bytes - (node.config.max_bytes or node.done_bytes)
    for item in oldest:
        if left <= 0 and not is_over(item, node.config, now):
            break
        left -= item.size
        count += 1
    return oldest[:count]


def drop_done(request: DropDone, facts: DropDoneFacts) -> Decision:
    """Drop a slice, and look again; or return how far everything was looked through."""
    node = facts.node
    gone = () if node is None else surplus(node, facts.items, facts.now)
    if not gone:
        return Decision(LookedThrough(facts.next))
    return Decision(LookedThrough(request.after), tuple(map(RemoveItem, gone)), then=request)
