"""Gives turns in groups that are sent ahead (`rules.ahead`), and keeps their order when items are delivered."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pubqueue.engine.listings import GroupLines, GroupTaken
from pubqueue.engine.writes import ABSENT
from pubqueue.model.changes import Lock, TakeTurn
from pubqueue.model.entities import State, account_of
from pubqueue.rules.ahead import deliverable, holders_of, recalls, turns
from pubqueue.rules.dispatch import in_line

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

    from pubqueue.engine.changes import ChangeApplier
    from pubqueue.engine.context import Context
    from pubqueue.model.changes import Change
    from pubqueue.model.entities import Item, Jid, Node, NodeName

    Group = tuple[NodeName, str]
    Rows = Sequence[tuple[Item, bytes]]


# Turns: for the groups that a batch has touched, within the batch, as for other groups.


def give_turns(context: Context, changes: ChangeApplier, groups: Sequence[Group]) -> None:
    """Recall what was sent after an item that has come back, and let as many turns begin as there is room for."""
    now = context.now
    for items in _taken(context, changes, groups).values():
        if back := recalls(items, now):
            changes.recalled += [change.item for change in back]
            changes.make(None, back)
    taken = _taken(context, changes, groups)
    rooms = _rooms(context, changes, taken)
    lines = _lines(context, changes, {key: room for key, (_, room) in rooms.items()})
    for key, (limit, room) in rooms.items():
        found = turns(limit, taken[key], lines[key], room, now)
        changes.make(None, [TakeTurn(item, 0) for item in found.end])
        changes.begin_turns(key, found.begin)
        holders = holders_of(taken[key])
        changes.waits_for_room.end(key)
        if len(holders) == 1 and len(found.begin) < len(lines[key]) + len(found.end):
            changes.waits_for_room.set(key, *holders)


def _taken(
    context: Context, changes: ChangeApplier, groups: Sequence[Group]
) -> dict[Group, list[Item]]:
    """Return the items of each group that have turns, as they are in this batch."""
    found: dict[Group, list[Item]] = {key: [] for key in groups}
    for item in context.rows.tx.page(GroupTaken(tuple(groups)), None, len(groups)):
        if not changes.has_changed(item.seq):
            found[item.node, item.group].append(item)
    for _, item_now in changes.changed_items():
        if item_now is not None and item_now.turn:
            key = item_now.node, item_now.group
            if key in found:
                found[key].append(item_now)
    return found


def _rooms(
    context: Context, changes: ChangeApplier, taken: Mapping[Group, Sequence[Item]]
) -> dict[Group, tuple[int, int]]:
    """Return the limit of each group, and how many more items its holder has room for."""
    rows = context.rows
    holders = {key: holders_of(items) for key, items in taken.items()}
    for (name, _), of in holders.items():
        for jid in of:
            if rows.cache.subscription(name, jid) is ABSENT:
                rows.needs.subscriptions.add((name, account_of(jid)))
    if rows.lacking:
        rows.load()
    rows.resolve()
    if changes.takes:
        changes.load_takers(dict.fromkeys(name for name, _ in taken))
    rooms: dict[Group, tuple[int, int]] = {}
    known: dict[tuple[NodeName, Jid], int] = {}
    for key, of in holders.items():
        node = rows.node(key[0])
        assert node is not None  # its groups were called
        room = 0
        if len(of) == 1 and key not in changes.waits_for_room.passed:
            (jid,) = of
            if (node.name, jid) not in known:
                known[node.name, jid] = changes.room_of(node, jid)
            room = known[node.name, jid]
        rooms[key] = node.config.group_limit, room
    return rooms


def _lines(
    context: Context, changes: ChangeApplier, rooms: Mapping[Group, int]
) -> dict[Group, list[Item]]:
    """Return the first waiting items of each group, one more than can have turns."""
    found: dict[Group, list[Item]] = {key: [] for key in rooms}
    gone: defaultdict[Group, int] = defaultdict(int)
    for before, now in changes.changed_items():
        if before is not None and in_line(before):
            gone[before.node, before.group] += 1
        if now is not None and in_line(now) and (now.node, now.group) in found:
            found[now.node, now.group].append(now)
    wanted: defaultdict[int, list[Group]] = defaultdict(list)
    for key, room in rooms.items():
        wanted[min(room, MOST) + gone[key] + 2].append(key)
    for length, keys in wanted.items():
        for item in context.rows.tx.page(GroupLines(tuple(keys)), None, length):
            if not changes.has_changed(item.seq):
                found[item.node, item.group].append(item)
    return found


MOST: Final = 1000
"""The highest limit of a group."""


def wake(context: Context, changes: ChangeApplier, names: Iterable[NodeName]) -> bool:
    """Call groups that wait for room of a holder which has room now; return whether there are any."""
    waiting = changes.waits_for_room
    rows = context.rows
    for name in [name for name in names if name in waiting]:
        node = rows.node(name)
        if rows.lacking:
            rows.load()
            node = rows.node(name)
        for holder in waiting.holders(name):
            room = MOST
            if node is not None:
                room = _room(context, changes, node, holder)
            groups = waiting.first(name, holder, room)
            if node is None:
                for group in groups:
                    waiting.end(group)
            else:
                changes.groups.update(dict.fromkeys(groups))
    return bool(changes.groups)


def _room(context: Context, changes: ChangeApplier, node: Node, holder: Jid) -> int:
    rows = context.rows
    if rows.cache.subscription(node.name, holder) is ABSENT:
        rows.needs.subscriptions.add((node.name, account_of(holder)))
        rows.load()
    rows.resolve()
    if changes.takes:
        changes.load_takers((node.name,))
    return changes.room_of(node, holder)


# Delivery: what is ready of a group goes to its holder, in order.


NOBODY: Final[frozenset[Jid]] = frozenset()


class SentAhead(Struct):
    """The ready items of a queue without those that would go ahead of others; and by their numbers the holders of their groups."""

    rows: Rows
    holders: dict[int, frozenset[Jid]]

    def limits(self, carriers: Mapping[int, Container[Jid]]) -> Mapping[int, Container[Jid]]:
        """Return who may have which item, given who can carry it."""
        both: dict[int, Container[Jid]] = dict(carriers)
        for seq, holders in self.holders.items():
            able = carriers.get(seq)
            both[seq] = holders if able is None else frozenset(h for h in holders if h in able)
        return both

    def note_passed(self, changes: ChangeApplier, made: Iterable[Change]) -> None:
        """Call the groups with items for which their holder has no room: their turns end until it has."""
        locked = {change.item.seq for change in made if isinstance(change, Lock)}
        for item, _ in self.rows:
            is_passed = item.seq in self.holders and item.seq not in locked
            if is_passed and item.state is State.QUEUED:
                _pass(changes, (item.node, item.group))


def _pass(changes: ChangeApplier, group: Group) -> None:
    """End the turns of a group whose next item its holder cannot have in this batch."""
    changes.waits_for_room.passed.add(group)
    changes.groups[group] = None


def in_order(context: Context, changes: ChangeApplier, node: Node, rows: Rows) -> SentAhead:
    """Return the rows that may be delivered now."""
    groups = dict.fromkeys((node.name, item.group) for item, _ in rows if item.group)
    if not groups:
        return SentAhead(rows, {})
    ready = {item.seq for item, _ in rows}
    taken = _taken(context, changes, tuple(groups))
    may: set[int] = set()
    holders: dict[int, frozenset[Jid]] = {}
    for key, items in taken.items():
        found = deliverable(items, ready, context.now)
        may.update(item.seq for item in found)
        if not (of := holders_of(items)):
            continue
        only = of if len(of) == 1 else NOBODY
        holders.update(dict.fromkeys((item.seq for item in found), only))
        if any(item.seq in ready and item.seq not in may for item in items):
            _pass(changes, key)
    return SentAhead([row for row in rows if not row[0].group or row[0].seq in may], holders)
