"""How a lock or a lifetime ends, other than by a retract: released, failed, or dead.

Settle, expire and leave share these; each returns the change and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.model import changes as c
from pubqueue.model.after import backoff, exhausted, waiting
from pubqueue.model.entities import NO_TIME, Draft, Millis, later, seconds, with_death
from pubqueue.rules.publication import MAX_BYTES, MAX_COPIES, new_item
from pubqueue.rules.room import left_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pubqueue.model.entities import Item, ItemId, Node, NodeName
    from pubqueue.rules.room import Allowance


PUT_OFF: Final = Millis(1000)
"""How much longer an item lives if a commit has no room for it."""


class Copy(Struct, frozen=True, gc=False):
    """A queue into which a dead item is copied, its id there, and the allowance of the account that created the queue."""

    queue: Node
    id: ItemId
    allowance: Allowance | None = None
    is_guest: bool = False


class Onward(Struct, frozen=True, gc=False):
    """The queues to which a plain node passes a dead item on: the one it moves into, those it is copied into, and guests that refuse it."""

    first: Node
    payload: bytes = b""
    copies: tuple[Copy, ...] = ()
    left_out: tuple[c.NoteLeftOut, ...] = ()


class DeadLetterPlace(Struct, frozen=True, gc=False):
    """The dead-letter node of an item: whether it exists, and whether it has the id already.

    `room` is how many more items it accepts, None for any number, and `left` how many more bytes:
    by the limits of the node, and of the account that created it, if another account created the
    item's node. `refuses` is the reason why it does not accept this one, empty if it does
    (`dead_letters.refusal`).
    """

    name: NodeName
    exists: bool
    taken: bool
    room: int | None = None
    refuses: str = ""
    left: int | None = None
    onward: Onward | None = None
    """The queues that it is passed on to, if the named node is a plain one that keeps no items."""

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
) -> c.Release:
    """End a lock without counting a failure: the item returns to its old place.

    Once every subscriber has had a chance to refuse it, it returns after growing pauses, so that an
    item that all subscribers refuse causes no busy loop. `delay` is the pause that the holder
    requested, `reason` is why the holder released the item.
    """
    released = item.released + 1
    pause = backoff(node.config, item, released - max(node.subscriptions, 1))
    state, due = waiting(now, pause if delay is None else max(pause, delay))
    return c.Release(item, state, due, item.failed, released, reason)


def fail(case: Case, now: Millis, reason: str, *, delay: Millis | None = None) -> c.Change:
    """End a lock and count a failure: the item goes to other workers at once, then after growing pauses, then it is dead."""
    item, node = case.item, case.node
    failed = item.failed + 1
    if exhausted(item, node.config):
        return give_up(case, now, reason, failed=failed)
    pause = backoff(node.config, item, failed - 1)
    state, due = waiting(now, pause if delay is None else max(pause, delay))
    return c.Release(item, state, due, failed, item.released, reason)


def give_up(case: Case, now: Millis, reason: str, *, failed: int) -> c.GiveUp:
    """End an item's life: in the dead-letter node if that accepts it; otherwise it stays, with the reason why."""
    place = case.place
    if place is None or place.name == case.item.node:
        return c.GiveUp(case.item, now, reason, failed, None)
    if place.obstacle:
        return c.GiveUp(case.item, now, _stays(reason, place.name, place.obstacle), failed, None)
    onward = None if place.onward is None else _passed_on(case.item, place.onward, now, failed)
    return c.GiveUp(case.item, now, reason, failed, place.name, onward=onward)


def _passed_on(item: Item, onward: Onward, now: Millis, failed: int) -> c.PassOn:
    """Return the item for the queues: with its publisher and time, and with the headers of its death."""
    headers = with_death(item.headers, item.node, failed)
    draft = Draft(item.id, onward.payload, item.priority, headers=headers, group=item.group)
    copies: list[c.AddItem] = []
    for copy in onward.copies:
        add = new_item(replace(draft, id=copy.id), copy.queue, item.publisher, now)
        copies.append(replace(add, published=item.published))
    life = onward.first.config.item_expire
    expires = None if life is None else later(now, seconds(life))
    return c.PassOn(headers, expires, tuple(copies), onward.left_out)


def _stays(reason: str, place: NodeName, obstacle: str) -> str:
    """Return the reason of a death together with the reason why the item is not in the dead-letter node."""
    return f"{reason}; not moved to {place}: {obstacle}"


class _Rooms:
    """How many items and bytes each node, and each account, still accepts of the dead items of one decision."""

    def __init__(self, cases: Iterable[Case]) -> None:
        self._left: dict[object, tuple[int | None, int | None]] = {}
        self._taken: set[tuple[NodeName, ItemId]] = set()
        self._copies = self._bytes = 0
        for place in (case.place for case in cases if case.place is not None):
            self._left[place.name] = place.room, place.left
            for copy in () if place.onward is None else place.onward.copies:
                self._left[copy.queue.name] = left_in(copy.queue)
                if copy.allowance is not None:
                    self._left[_payer(copy)] = copy.allowance.left()

    def take(self, end: c.GiveUp, place: DeadLetterPlace) -> str:
        """Take the room for a dead item in all its places, or return why one of them has none. Guests were asked before."""
        size = end.item.size
        costs: list[object] = [place.name]
        ids = [(place.name, end.item.id)]
        for copy in () if place.onward is None else place.onward.copies:
            if not copy.is_guest:
                costs += [copy.queue.name, *([] if copy.allowance is None else [_payer(copy)])]
            ids.append((copy.queue.name, copy.id))
        if not self._taken.isdisjoint(ids):
            return "it has this id"
        before = dict(self._left)
        for key in costs:
            items, byte_count = self._left[key]
            if items == 0 or (byte_count is not None and byte_count < size):
                self._left = before
                return "it is full"
            self._left[key] = (
                None if items is None else items - 1,
                None if byte_count is None else byte_count - size,
            )
        self._taken.update(ids)
        return ""

    def is_too_much(self, end: c.GiveUp) -> bool:
        """Return whether the copies exceed what one commit may make; if not, count them."""
        copies = len(end.copies)
        size = copies * end.item.size
        if copies and (self._copies + copies > MAX_COPIES or self._bytes + size > MAX_BYTES):
            return True
        self._copies += copies
        self._bytes += size
        return False


def _payer(copy: Copy) -> object:
    return "account", copy.queue.creator


def in_their_places(ends: Iterable[c.Change], cases: Iterable[Case]) -> Iterator[c.Change]:
    """Move the dead items of one decision only if there is room: the others stay in their queue, dead.

    The dead-letter node accepts one item per id, and as many as its limit allows. If it is a plain node that passes them on,
    each of its queues has to accept the item, or none gets it; those of guests are left out if they do not. If there are more copies than one commit may make, the others
    have one more attempt, or live a second longer.
    """
    cases = list(cases)
    rooms = _Rooms(cases)
    places = {case.item.seq: case.place for case in cases}
    for end in ends:
        place = places.get(end.item.seq) if isinstance(end, c.GiveUp) else None
        if not isinstance(end, c.GiveUp) or end.to is None or place is None:
            yield end
        elif obstacle := rooms.take(end, place):
            why = _stays(end.reason, end.to, obstacle)
            yield replace(end, to=None, reason=why, onward=None)
        else:
            yield _put_off(end) if rooms.is_too_much(end) else end


def work_of(ends: Iterable[c.Change]) -> int:
    """Return how much work the copies of dead items are (`Decision.work`); 0 if none was made."""
    return sum(len(end.copies) for end in ends if isinstance(end, c.GiveUp))


def _put_off(end: c.GiveUp) -> c.Change:
    """Let an item live on for now, because of others that die with it."""
    item = end.item
    if item.holder is None:
        return c.SetLife(item, later(end.at, PUT_OFF))
    return c.Release(item, *waiting(end.at, NO_TIME), end.failed, item.released, end.reason)


def room_for(place: Node, node: Node, allowance: Allowance | None) -> tuple[int | None, int | None]:
    """Return how many more items, and bytes, a dead-letter node accepts from another node; None for any number.

    If both are of one account its total does not change, and only the node itself may be full.
    """
    room, left = left_in(place)
    if allowance is None or place.creator == node.creator:
        return room, left
    items, byte_count = allowance.left()
    return _lesser(room, items), _lesser(left, byte_count)


def _lesser(one: int | None, other: int | None) -> int | None:
    return min((bound for bound in (one, other) if bound is not None), default=None)
