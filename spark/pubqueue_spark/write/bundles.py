"""Items of a task are gathered into publishes: one request, one answer and one write for many rows.

A publish goes to one node, and its metadata and headers apply to all of its items; so rows are
gathered that agree on these. The service accepts all items of a publish or none: when it refuses
one because of a row, the publish is cut in two, and so on down to the very row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pubqueue_spark.write.rows import Item, Publish, Rows

BYTES: Final = 64 * 1024
"""Of the items of a publish: a quarter of what servers take, so that it is always a small stanza."""


class Bundles:
    """Gathers items into publishes of at most `most`, and of what a node is known to take."""

    def __init__(self, rows: Rows, most: int) -> None:
        self._rows = rows
        self._most = most
        # Written when an answer is read, in the thread of the stream, and read in that of the rows.
        self._taken: dict[str, int] = {}

    def gather(self, items: Iterable[Item]) -> Iterator[Publish]:
        """Return the publishes of these items.

        Two items of one id, of which the later counts, never go together, and go in their order.
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
        """Return the halves of a refused publish; keep in mind if it had too many items for its node."""
        items, half = publish.items, len(publish.items) // 2
        if too_many:
            node = items[0].node
            self._taken[node] = min(half, self._limit(node))
        return [self._rows.publish(items[:half]), self._rows.publish(items[half:])]

    def _limit(self, node: str) -> int:
        return self._taken.get(node, self._most)
