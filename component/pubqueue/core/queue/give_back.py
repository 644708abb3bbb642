"""How a lock or a life ends, other than by a retract: released, failed, or dead.

Settle, expire and leave share these; each returns the change and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.core.changes import (
    Change,
    GiveUp,
    Release,
)
from pubqueue.core.lifecycle import backoff, exhausted, waiting

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pubqueue.core.limits.allowance import Allowance
    from pubqueue.core.model import Item, ItemId, Millis, Node, NodeName


class DeadLetterPlace(Struct, frozen=True, gc=False):
    """The dead-letter node of an item: whether it exists, and whether it has the id already.

    `room` is how many more items it accepts, None for any number, and `left` how many more bytes:
    by the limits of the node, and of the account that made it, if another account made the item's
    node. `refuses` is the reason why it does not accept this one, empty if it does
    (`dead_letters.refusal`).
    """

    name: NodeName
    exists: bool
    taken: bool
    room: int | None = None
    refuses: str = ""
    left: int | None = None

    @property
    def obstacle(self) -> str:
        """Why the item cannot go there, empty if it can."""
        if not self.exists:
            return "it does not exist"
        return self.refuses or ("it has this id" if self.taken else "")


class Case(Struct, frozen=True, gc=False):
    """An item with the node that it is in, and the place for it should it die."""

    item: Item
    node: Node
    place: DeadLetterPlace | None = None


def release(
    item: Item, node: Node, now: Millis, *, delay: Millis | None = None, reason: str = ""
) -> Release:
    """End a lock without counting a failure: the item returns to its old place.

    Once every subscriber has had a chance to refuse it, it returns after growing pauses, so that an
    item that all subscribers refuse causes no busy loop. `delay` is the pause that the holder asked
    for, `reason` is why the holder released the item.
    """
    released = item.released + 1
    pause = backoff(node.config, released - max(node.subscriptions, 1))
    state, due = waiting(now, pause if delay is None else max(pause, delay))
    return Release(item, state, due, item.failed, released, reason)


def fail(case: Case, now: Millis, reason: str, *, delay: Millis | None = None) -> Change:
    """End a lock with blame: others get the item at once, then later and later, then it is dead."""
    item, node = case.item, case.node
    failed = item.failed + 1
    if exhausted(item, node.config):
        return give_up(case, now, reason, failed=failed)
    pause = backoff(node.config, failed - 1)
    state, due = waiting(now, pause if delay is None else max(pause, delay))
    return Release(item, state, due, failed, item.released, reason)


def give_up(case: Case, now: Millis, reason: str, *, failed: int) -> GiveUp:
    """End an item's life: in the dead-letter node if that takes it; else it stays, with the reason why."""
    place = case.place
    if place is None or place.name == case.item.node:
        return GiveUp(case.item, now, reason, failed, None)
    if place.obstacle:
        return GiveUp(case.item, now, _stays(reason, place.name, place.obstacle), failed, None)
    return GiveUp(case.item, now, reason, failed, place.name)


def _stays(reason: str, place: NodeName, obstacle: str) -> str:
    """Return the reason of a death together with why the item is not where its node's dead items go."""
    return f"{reason}; not moved to {place}: {obstacle}"


def in_their_places(ends: Iterable[Change], cases: Iterable[Case]) -> Iterator[Change]:
    """Move the dead of one decision only as far as there is room: the others stay in their queue, dead.

    The dead-letter node takes one item per id, and as many as its limit allows.
    """
    places = [case.place for case in cases if case.place is not None]
    rooms = {place.name: place.room for place in places}
    left = {place.name: place.left for place in places}
    taken: set[tuple[NodeName, ItemId]] = set()
    for end in ends:
        if not isinstance(end, GiveUp) or end.to is None:
            yield end
            continue
        place, size = (end.to, end.item.id), end.item.size
        room, byte_count = rooms.get(end.to), left.get(end.to)
        full = (room is not None and room <= 0) or (byte_count is not None and byte_count < size)
        if place in taken or full:
            obstacle = "it has this id" if place in taken else "it is full"
            yield replace(end, to=None, reason=_stays(end.reason, end.to, obstacle))
            continue
        taken.add(place)
        if room is not None:
            rooms[end.to] = room - 1
        if byte_count is not None:
            left[end.to] = byte_count - size
        yield end


def room_in(node: Node) -> int | None:
    """Return how many more items the node takes, None for any number."""
    limit = node.config.max_items
    return None if limit is None else max(0, limit - node.items)


def room_for(place: Node, node: Node, allowance: Allowance | None) -> tuple[int | None, int | None]:
    """Return how many more items, and bytes, a dead-letter node takes from another node; None for any number.

    Where both are of one account nothing of what it has here changes, and only the node itself may be full.
    """
    room = room_in(place)
    if allowance is None or place.creator == node.creator:
        return room, None
    items, byte_count = allowance.left()
    known = [one for one in (room, items) if one is not None]
    return min(known, default=None), byte_count
