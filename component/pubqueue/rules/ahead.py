"""Groups that are sent ahead: several items of a group are in flight, in their order, with one holder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from pubqueue.model.changes import Release
from pubqueue.model.entities import State
from pubqueue.model.notices import Unlocked
from pubqueue.rules.give_back import fail, release

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from pubqueue.model.changes import Change
    from pubqueue.model.entities import Item, ItemId, Jid, Millis, NodeName
    from pubqueue.rules.give_back import Case


# A queue with `group_ahead` delivers the next items of a group before the earlier ones are done, up to the group's limit.
#
# Order then needs three things. All that is in flight of a group is with one holder, which gets it in order. An item that comes
# back, however its lock ends, brings back with it what was sent after it, and that counts as no failure. And nothing follows an
# item that waits for another attempt. An item that leaves the group (it is done, dead or moved) affects no other.
#
# All of it is decided by the state of the rows alone: what is locked behind an item that is not locked has to come back. So the
# order is the same after a restart, and whichever process decides.
#
# Of a group that nobody holds, one item has a turn, as in other queues with a limit of one. The turns of the next ones begin once
# that is locked: as many as its holder has room for. So what is ready can be delivered, and no group is in the way of others.


class Turns(Struct, frozen=True, gc=False):
    """The items whose turns end, so that they wait in their group again, and those whose turns begin, in order."""

    end: Sequence[Item]
    begin: Sequence[Item]


def by_turn(taken: Iterable[Item], now: Millis) -> list[Item]:
    """Return the items with turns, in order, without those whose lifetime has ended: they are not delivered any more."""
    living = (i for i in taken if i.holder is not None or i.expires is None or i.expires > now)
    return sorted(living, key=lambda item: item.turn)


def recalls(taken: Iterable[Item], now: Millis) -> list[Release]:
    """Return how the locks end that were given after an item which is not locked any more."""
    found: list[Release] = []
    is_broken = False
    for item in by_turn(taken, now):
        if item.holder is None:
            is_broken = True
        elif is_broken:
            found.append(recall(item))
    return found


def recall(item: Item) -> Release:
    """End a lock because of an earlier item: it was no attempt, and the same holder may get the item again at once."""
    return Release(item, State.QUEUED, None, item.failed, item.released, is_recalled=True)


def holders_of(taken: Iterable[Item]) -> frozenset[Jid]:
    """Return who holds items of the group: one holder, or more if the queue was not sent ahead when they were locked."""
    return frozenset(item.holder for item in taken if item.holder is not None)


def turns(limit: int, taken: Iterable[Item], line: Iterable[Item], room: int, now: Millis) -> Turns:
    """Return which turns end and begin, so that as many items are ready as the holder has `room` for.

    `taken` are the items with turns, after `recalls`, `line` the first of those that wait for one. Within a group the
    order is that of publishing, so an item with a higher priority than the ready one before it waits until that is locked.
    """
    held, most = 0, 0
    kept: list[Item] = []
    end: list[Item] = []
    is_closed = False
    for item in by_turn(taken, now):
        if item.holder is not None:
            held += 1
            continue
        most = min(limit - held, room) if held else 1
        waits = item.state is not State.QUEUED
        if not waits and (is_closed or len(kept) >= most):
            end.append(item)
            continue
        kept.append(item)
        is_closed = is_closed or waits
    most = min(limit - held, room) if held else 1
    begin: list[Item] = []
    if not (is_closed or end):
        last = kept[-1].priority if kept else None
        for item in sorted(line, key=lambda item: item.seq)[: max(0, most - len(kept))]:
            if last is not None and item.priority > last:
                break
            begin.append(item)
            last = item.priority
    return Turns(end, begin)


def deliverable(taken: Iterable[Item], ready: Container[int], now: Millis) -> list[Item]:
    """Return the items of the group that may be delivered next, in order, out of these that are `ready`.

    Of a group without a holder it is one. If one is missing among the ready items, nothing goes ahead of it.
    """
    found: list[Item] = []
    is_held = False
    for item in by_turn(taken, now):
        if item.holder is not None:
            is_held = True
            continue
        if item.seq not in ready:
            break
        found.append(item)
        if not is_held or item.state is not State.QUEUED:
            break
    return found


def fail_first(cases: Sequence[Case], now: Millis, reason: str) -> list[Change]:
    """End locks that end together, each with a failure, but of a group that is sent ahead only the first: the others come back with it."""
    counted = _firsts(cases)
    return [
        fail(case, now, reason) if case.item.seq in counted else recall(case.item) for case in cases
    ]


def release_first(cases: Sequence[Case], now: Millis) -> list[Change]:
    """End locks that end together without a failure, likewise."""
    counted = _firsts(cases)
    return [
        release(case.item, case.node, now) if case.item.seq in counted else recall(case.item)
        for case in cases
    ]


def _firsts(cases: Iterable[Case]) -> set[int]:
    """Return the numbers of the items whose end counts."""
    counted: set[int] = set()
    first: dict[tuple[NodeName, str], Item] = {}
    for case in cases:
        item = case.item
        if not (item.group and case.node.config.group_ahead):
            counted.add(item.seq)
            continue
        key = item.node, item.group
        if key not in first or item.turn < first[key].turn:
            first[key] = item
    return counted | {item.seq for item in first.values()}


def told(recalled: Iterable[Item]) -> list[Unlocked]:
    """Return the notices to the holders of recalled items."""
    ids: dict[tuple[Jid, NodeName], list[ItemId]] = {}
    for item in recalled:
        if item.holder is not None:
            ids.setdefault((item.holder, item.node), []).append(item.id)
    return [Unlocked(holder, node, tuple(names)) for (holder, node), names in ids.items()]
