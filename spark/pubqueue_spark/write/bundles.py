"""Gathers items of a task into publishes: one request, one answer and one write for many rows.

A publish goes to one node, and its metadata and headers apply to all of its items, so only rows with the same ones are
gathered. The service accepts all items of a publish or none: if it refuses one because of a row, the publish is halved
until that row is found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pubqueue_spark.write.rows import Item, Publish, Rows

BYTES: Final = 64 * 1024
"""The maximum size of a publish's items in bytes: a quarter of what servers accept."""


class Bundles:
    """Gathers items into publishes of up to `most`, or fewer if a node is known to accept fewer."""

    def __init__(self, rows: Rows, most: int) -> None:
        self._rows = rows
        self._most = most
        # Written in the stream's thread when an answer is read; read in the thread of the rows.
        self._taken: dict[str, int] = {}

    def gather(self, items: Iterable[Item]) -> Iterator[Publish]:
        """Return the publishes of these items.

        Two items with the same id, of which the later one replaces the earlier, are in different publishes, in order.
        """
        open_: dict[tuple[str, str], list[Item]] = {}
        room: dict[tuple[str, str], int] = {}
        ids: set[tuple[str, str]] = set()
        for item in items:
            key = item.node, item.beside
            name = item.node, item.id
            if name in ids:
                yield from map(self._rows.publish, open_.values())
                open_.clear()
                ids.clear()
            bundle = open_.get(key)
            if bundle and (len(bundle) >= self._limit(item.node) or room[key] < len(item.xml)):
                yield self._rows.publish(bundle)
                bundle = None
            if bundle is None:
                bundle = open_[key] = []
                room[key] = BYTES
            bundle.append(item)
            room[key] -= len(item.xml)
            ids.add(name)
        yield from map(self._rows.publish, open_.values())

    def cut(self, publish: Publish, *, too_many: bool) -> list[Publish]:
        """Return the halves of a refused publish; remember if it had too many items for its node."""
        items, half = publish.items, len(publish.items) // 2
        if too_many:
            node = items[0].node
            self._taken[node] = min(half, self._limit(node))
        return [self._rows.publish(items[:half]), self._rows.publish(items[half:])]

    def _limit(self, node: str) -> int:
        return self._taken.get(node, self._most)
