"""The payload sizes that subscribers can get: faces differ in how large a payload they can send.

The limit of each face is compared with that of the node. Only if the node allows more, or a larger item was found, its
subscribers and its items are examined one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pubqueue.app.facts.context import Context
    from pubqueue.app.working_set.change_applier import ChangeApplier
    from pubqueue.model.entities import Item, Jid, Node, NodeName, Subscription
    from pubqueue.rules.dispatch import TakeWindow

    Rows = Sequence[tuple[Item, bytes]]

ALL: Final = 1 << 30


class Carrying:
    """The queues of one batch with items that some subscribers cannot have; `sizes` is the largest payload that any of them can have now."""

    def __init__(self, context: Context, changes: ChangeApplier) -> None:
        self._cache = context.rows.cache
        self._changes = changes
        self._least = context.least()
        self._largest_of = context.largest_of
        self.sizes: dict[NodeName, int] = {}
        self._lines: dict[NodeName, list[Subscription]] = {}

    def look(self, name: NodeName) -> None:
        """Determine the largest item that can be delivered from a queue now."""
        self.sizes.pop(name, None)
        node, cache = self._cache.nodes.get(name), self._cache
        windows = self._changes.windows(name)
        if node is None or windows is None:
            return
        if node.config.max_payload_size <= self._least and name not in cache.with_large:
            if name in cache.sizes:  # the node allowed more before
                self._note(name, None)
            return
        self._lines[name] = line = windows.first(ALL)
        jids = [each.jid for each in line] + [each.jid for each in self.takes(node, ALL)]
        largest = max(map(self._largest_of, jids), default=0)
        self.sizes[name] = largest
        self._note(name, largest)

    def _note(self, name: NodeName, largest: int | None) -> None:
        """Look from the beginning again if larger or smaller items are wanted than before."""
        cache = self._cache
        if cache.sizes.get(name) == largest:
            return
        cache.passed.pop(name, None)
        cache.idle.discard(name)
        if largest is None:
            del cache.sizes[name]
        else:
            cache.sizes[name] = largest

    def meets_large(self, name: NodeName, rows: Rows) -> bool:
        """Return whether an item is larger than the node allows now, and than each face can send."""
        node = self._cache.nodes.get(name)
        if name in self.sizes or node is None or node.bytes <= self._least:
            return False
        if not any(len(payload) > self._least for _, payload in rows):
            return False
        self._cache.with_large.add(name)
        return True

    def leave_out(self, found: dict[NodeName, list[tuple[Item, bytes]]]) -> None:
        """Leave out items that no subscriber can have now; those of the store are left out by the store."""
        for name, size in self.sizes.items():
            if name in found:
                found[name] = [row for row in found[name] if len(row[1]) <= size]

    def line(self, name: NodeName, count: int) -> list[Subscription]:
        """Return up to `count` subscribers with room, the next first; all of them if some cannot get every item."""
        if name in self.sizes:
            return self._lines[name]
        windows = self._changes.windows(name)
        return [] if windows is None else windows.first(count)

    def takes(self, node: Node, count: int) -> list[TakeWindow]:
        """Return the waiting takes with room, likewise."""
        if not self._changes.takes:
            return []
        return self._changes.take_line(node, ALL if node.name in self.sizes else count)

    def carriers(
        self, name: NodeName, rows: Rows, line: Sequence[Subscription | TakeWindow]
    ) -> Mapping[int, frozenset[Jid]]:
        """Return, by the numbers of items that some subscribers cannot get, the subscribers that can."""
        if name not in self.sizes:
            return {}
        largest = {each.jid: self._largest_of(each.jid) for each in line}
        known: dict[int, frozenset[Jid]] = {}
        for item, payload in rows:
            if (size := len(payload)) > self._least:
                known[item.seq] = frozenset(jid for jid, most in largest.items() if most >= size)
        return known
