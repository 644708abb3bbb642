"""Gives turns: items of groups take their places in the order of ready items, if more of the group may be in flight.

It runs for the groups that a batch has touched, within the batch: the removal of an item and the next item's turn are
one commit. The store's rows of a group are merged with the batch's changes that are not written yet.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from msgspec import Struct, field

from pubqueue.app.store.item_listings import GroupLines, GroupTurns
from pubqueue.model.changes import TakeTurn
from pubqueue.rules.dispatch import in_line, next_turns

if TYPE_CHECKING:
    from pubqueue.app.facts.context import Context
    from pubqueue.app.working_set.change_applier import ChangeApplier
    from pubqueue.model.entities import Item, NodeName

    Group = tuple[NodeName, str]


class _Group(Struct):
    """A group as it is in this batch: its current turns, and its waiting items."""

    limit: int
    turns: int = 0
    line: list[Item] = field(default_factory=list)
    gone: int = 0
    """Items that wait in the store, and no longer do."""

    @property
    def room(self) -> int:
        return max(0, self.limit - self.turns)


def give_turns(context: Context, changes: ChangeApplier) -> None:
    """Let the next items of the touched groups take their turns, as many as their nodes allow in flight."""
    called, changes.groups = changes.groups, {}
    groups = _limits(context, called)
    if not groups:
        return
    new = _unwritten(changes, groups)
    tx, names = context.rows.tx, tuple(groups)
    for group, turns in zip(
        groups.values(), tx.page(GroupTurns(names), None, len(names)), strict=True
    ):
        group.turns += turns
    _load_lines(context, changes, groups)
    for group in groups.values():
        for item in next_turns(group.limit, group.turns, group.line):
            turn = item.seq if item.seq in new else changes.next_number()
            changes.make(None, [TakeTurn(item, turn)])
    changes.groups = {}


def _limits(context: Context, called: dict[Group, None]) -> dict[Group, _Group]:
    """Return the groups that are in queues, with how many of each may be in flight."""
    rows = context.rows
    nodes = {name: rows.node(name) for name, _ in called}
    if rows.lacking:
        rows.load()
        nodes = {name: rows.node(name) for name in nodes}
    return {
        (name, group): _Group(node.config.group_limit)
        for name, group in called
        if (node := nodes[name]) is not None and node.config.queueing
    }


def _unwritten(changes: ChangeApplier, groups: dict[Group, _Group]) -> set[int]:
    """Merge the batch's unwritten changes of the groups; return the items that are new with it."""
    new: set[int] = set()
    for before, now in changes.changed_items():
        if before is not None and (group := groups.get((before.node, before.group))) is not None:
            group.turns -= before.turn > 0
            group.gone += in_line(before)
        if now is not None and (group := groups.get((now.node, now.group))) is not None:
            group.turns += now.turn > 0
            if in_line(now):
                group.line.append(now)
            if before is None:
                new.add(now.seq)
    return new


def _load_lines(context: Context, changes: ChangeApplier, groups: dict[Group, _Group]) -> None:
    """Add the first waiting items of the store, as many as may be needed; groups of one length in one statement."""
    wanted: defaultdict[int, list[Group]] = defaultdict(list)
    for key, group in groups.items():
        if group.room:
            wanted[group.room + group.gone].append(key)
    for length, keys in wanted.items():
        for item in context.rows.tx.page(GroupLines(tuple(keys)), None, length):
            if not changes.has_changed(item.seq):
                groups[item.node, item.group].line.append(item)
