"""Whether a node has room for more items (`max_items`) and bytes (`max_bytes`).

Bytes are counted by `core.limits.quotas.weight`: payloads, and names and values of headers. A change that makes a node no larger
is never refused, even if the node exceeds its limits since its settings were changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from pubqueue.core.changes import AddItem, RemoveItem, ReplacePayload
from pubqueue.core.decision import Refusal, Refused
from pubqueue.core.limits.quotas import weight
from pubqueue.core.publishing.truncation import truncates

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pubqueue.core.changes import Change
    from pubqueue.core.model import Draft, Item, Node, NodeConfig


class Growth(Struct, frozen=True, gc=False):
    """How many more items and bytes a node has afterwards; less than 0 if fewer."""

    items: int = 0
    bytes: int = 0

    def __add__(self, other: Growth) -> Growth:
        """Return the sum."""
        return Growth(self.items + other.items, self.bytes + other.bytes)


NOTHING = Growth()


def is_bounded(config: NodeConfig) -> bool:
    """Return whether the node has a limit."""
    return config.max_items is not None or config.max_bytes is not None


def growth(changes: Iterable[Change]) -> Growth:
    """Return how much changes of items in one node add."""
    items = size = 0
    for change in changes:
        if type(change) is AddItem:
            items += 1
            size += weight(change.draft.payload, change.draft.headers)
        elif type(change) is RemoveItem:
            items -= 1
            size -= change.item.size
        elif type(change) is ReplacePayload:
            size += weight(change.payload, change.headers) - change.item.size
    return Growth(items, size)


def growth_by(drafts: Sequence[Draft], removed: Iterable[Item]) -> Growth:
    """Return how much is added by items that take the places of others."""
    gone = tuple(removed)
    size = sum(weight(draft.payload, draft.headers) for draft in drafts)
    return Growth(len(drafts) - len(gone), size - sum(item.size for item in gone))


def full(node: Node, more: Growth) -> Refused | None:
    """Refuse items for which the node has no room. One that drops its oldest items has room."""
    config = node.config
    if truncates(config):
        return None
    limit = config.max_items
    if limit is not None and more.items > 0 and node.items + more.items > limit:
        return Refused(Refusal.NODE_FULL, limit=limit)
    limit = config.max_bytes
    if limit is not None and more.bytes > 0 and node.bytes + more.bytes > limit:
        reason = f"the items of this node may have up to {limit} bytes, and have {node.bytes}"
        return Refused(Refusal.NODE_FULL, reason)
    return None


def never_fits(config: NodeConfig, drafts: Sequence[Draft]) -> Refused | None:
    """Refuse items that the node could not hold even if it were empty."""
    limit = config.max_items
    if limit is not None and len(drafts) > limit:
        return Refused(Refusal.TOO_MANY_ITEMS, limit=limit)
    limit = config.max_bytes
    if limit is None or not drafts:
        return None
    size = sum(weight(draft.payload, draft.headers) for draft in drafts)
    if size <= limit:
        return None
    reason = f"the node holds up to {limit} bytes, and this has {size}"
    return Refused(Refusal.PAYLOAD_TOO_BIG, reason)


def left_in(node: Node) -> tuple[int | None, int | None]:
    """Return how many more items, and bytes, the node accepts; None for any number."""
    config = node.config
    if truncates(config):
        return None, None
    items = None if config.max_items is None else max(0, config.max_items - node.items)
    size = None if config.max_bytes is None else max(0, config.max_bytes - node.bytes)
    return items, size


def surplus(node: Node, room: int | None, byte_room: int | None, more: Growth = NOTHING) -> Growth:
    """Return how many items, and bytes, have to be removed from a node with this limit that is to grow by `more`."""
    items = 0 if room is None else max(0, node.items + more.items - room)
    size = 0 if byte_room is None else max(0, node.bytes + more.bytes - byte_room)
    return Growth(items, size)


def first_to_go(oldest: Sequence[Item], over: Growth) -> Sequence[Item]:
    """Return the oldest of these that have to be removed: this many items, and at least this many bytes."""
    count, left = over.items, over.bytes - sum(item.size for item in oldest[: over.items])
    while left > 0 and count < len(oldest):
        left -= oldest[count].size
        count += 1
    return oldest[:count]
