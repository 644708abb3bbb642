"""The first items of plain nodes, as changes that are not made yet would leave them.

A node at its limit drops its oldest items with each publish. If several parts of one request publish to it, its first items
are read once, as many as all parts may need, and each part sees the items that the parts before have left.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pubqueue.model.entities import Item, NodeName

READ: Final = 4
"""How many items are read at a time for each item that the parts are about: those that may be removed, and those that are needed."""


class FirstItems:
    """The first items by node. `named` has for each node how many of its items the parts are about."""

    def __init__(self, named: Mapping[NodeName, int]) -> None:
        self._named = named
        self._of: dict[NodeName, dict[int, Item]] = {}
        self._through: dict[NodeName, int | None] = {}
        """The number up to which a node is read; None if all of it is read."""
        self._changes: dict[NodeName, dict[int, tuple[Item | None, Item | None]]] = {}

    def wanted(self, node: NodeName, many: int) -> tuple[int, int] | None:
        """Return how many items of a node to read, and after which number, so that `many` are known; None if they are."""
        through = self._through.get(node, 0)
        if through is None or len(self._of.get(node, ())) >= many:
            return None
        return READ * self._named[node] + many, through

    def know(self, node: NodeName, found: Sequence[Item], limit: int) -> None:
        """Add items of the node, as they are without the changes; `limit` is how many were requested."""
        items = self._of.setdefault(node, {})
        changes = self._changes.get(node, {})
        items.update((item.seq, item) for item in found if item.seq not in changes)
        self._through[node] = found[-1].seq if len(found) == limit else None
        for seq, (before, now) in changes.items():
            if now is not None and self._is_read(node, seq, before):
                items[seq] = now
        self._of[node] = dict(sorted(items.items(), key=_place))

    def _is_read(self, node: NodeName, seq: int, before: Item | None) -> bool:
        """Return whether the item is in the part of the node that is read."""
        through = self._through[node]
        return through is None or (before is not None and seq <= through)

    def note(self, before: Item | None, now: Item | None) -> None:
        """Note a change of an item."""
        for item in (before, now):
            if item is None:
                continue
            here = None if now is None or now.node != item.node else now
            changes = self._changes.setdefault(item.node, {})
            was = changes[item.seq][0] if item.seq in changes else _in(before, item.node)
            changes[item.seq] = was, here
            if item.node in self._of:
                self._put(item.node, item.seq, was, here)

    def _put(self, node: NodeName, seq: int, was: Item | None, now: Item | None) -> None:
        items = self._of[node]
        if now is None:
            items.pop(seq, None)
        elif seq in items or self._is_read(node, seq, was):
            late = (
                seq > 0
                and bool(items)
                and _place((seq, now)) < _place((next(reversed(items)), now))
            )
            items[seq] = now
            if late:  # a dead item keeps its place
                self._of[node] = dict(sorted(items.items(), key=_place))

    def first(self, node: NodeName, many: int) -> tuple[Item, ...]:
        """Return the first `many` items of a node; they have to be known."""
        return tuple(islice(self._of[node].values(), many))


def _in(item: Item | None, node: NodeName) -> Item | None:
    return item if item is not None and item.node == node else None


def _place(one: tuple[int, Item]) -> tuple[bool, int]:
    """Return the sort key: new items have no number yet, and come after all others, in the order of their provisional ones."""
    seq = one[0]
    return seq < 0, abs(seq)
