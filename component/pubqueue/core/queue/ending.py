"""How a lock or a life ends, other than by a retract: released, failed, or dead.

Settle, expire and leave share these; each returns the change and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from pubqueue.core.changes import (
    Change,
    GiveUp,
    Release,
)
from pubqueue.core.lifecycle import backoff, exhausted, waiting

if TYPE_CHECKING:
    from pubqueue.core.model import Item, Millis, Node, NodeName


class DeadLetterPlace(Struct, frozen=True, gc=False):
    """The dead-letter node of an item: whether it is there, and whether it has the id already."""

    name: NodeName
    exists: bool
    taken: bool


class Case(Struct, frozen=True, gc=False):
    """An item with the node that it is in, and the place for it should it die."""

    item: Item
    node: Node
    place: DeadLetterPlace | None = None


def release(item: Item, node: Node, now: Millis, *, delay: Millis | None = None) -> Release:
    """End a lock without blame: the item returns to its old place.

    Once every subscriber has had a chance to refuse it, it comes back ever more slowly, so that an
    item nobody wants is no busy loop. `delay` is the holder's own wish for a pause.
    """
    released = item.released + 1
    pause = backoff(node.config, released - max(node.subscriptions, 1))
    state, due = waiting(now, pause if delay is None else max(pause, delay))
    return Release(item, state, due, item.failed, released)


def fail(case: Case, now: Millis, reason: str, *, delay: Millis | None = None) -> Change:
    """End a lock with blame: others get the item at once, then later and later, then it is dead."""
    item, node = case.item, case.node
    failed = item.failed + 1
    if exhausted(item, node.config):
        return give_up(case, now, reason, failed=failed)
    pause = backoff(node.config, failed - 1)
    state, due = waiting(now, pause if delay is None else max(pause, delay))
    return Release(item, state, due, failed, item.released)


def give_up(case: Case, now: Millis, reason: str, *, failed: int) -> GiveUp:
    """End an item's life: in the dead-letter node if it is there and has room for the id."""
    place = case.place
    usable = place is not None and place.exists and not place.taken and place.name != case.item.node
    return GiveUp(case.item, now, reason, failed, place.name if place and usable else None)
