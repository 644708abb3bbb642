"""Maps names of nodes to their ids and those of their contents, and back: statements use the ids.

Items belong to contents, all other rows to the node itself. A node never changes its name, and it keeps its contents until
it is purged. So cached ids are valid until a node is purged or deleted. The cache is dropped when a transaction is rolled
back and when another process has written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from pubqueue.model.entities import NodeName

if TYPE_CHECKING:
    from collections.abc import Iterable


class Rows(Protocol):
    """The part of an open transaction that is needed here."""

    def rows(self, query: str, *values: object) -> list[Any]:
        """Return all rows of a statement."""


class NodeIds:
    """The cached ids of the nodes of one store."""

    def __init__(self) -> None:
        self._ids: dict[NodeName, int] = {}
        self._names: dict[int, NodeName] = {}
        self._contents: dict[NodeName, int] = {}
        self._holding: dict[int, NodeName] = {}

    def clear(self) -> None:
        """Clear the cache."""
        self._ids.clear()
        self._names.clear()
        self._contents.clear()
        self._holding.clear()

    def note(self, name: NodeName, number: int) -> None:
        """Remember a node."""
        self._ids[name] = number
        self._names[number] = name

    def note_contents(self, name: NodeName, number: int) -> None:
        """Remember the contents of a node."""
        self._contents[name] = number
        self._holding[number] = name

    def forget(self, name: NodeName) -> None:
        """Forget a node that is purged or deleted."""
        self._names.pop(self._ids.pop(name, 0), None)
        self._holding.pop(self._contents.pop(name, 0), None)

    def knows(self, names: Iterable[NodeName]) -> bool:
        """Return whether the ids of all these nodes, and of their contents, are cached."""
        return all(name in self._ids and name in self._contents for name in names)

    def ids(self, session: Rows, names: Iterable[NodeName]) -> dict[NodeName, int]:
        """Return the ids by name: of all cached nodes, and of those of `names` that exist."""
        if missing := [name for name in names if name not in self._ids]:
            for name, number in session.rows("node_ids", packed_keys(missing)):
                self.note(NodeName(name), number)
        return self._ids

    def contents(self, session: Rows, names: Iterable[NodeName]) -> dict[NodeName, int]:
        """Return the ids of contents by the nodes' names, in the same way as `ids`."""
        if missing := [name for name in names if name not in self._contents]:
            self._look_for_contents(session, "contents_of", missing)
        return self._contents

    def names(self, session: Rows, ids: set[int]) -> dict[int, NodeName]:
        """Return the names by id: of all cached nodes, and of those of `ids` that exist."""
        if not ids <= self._names.keys():
            for name, number in session.rows("node_names", packed_keys(list(ids))):
                self.note(NodeName(name), number)
        return self._names

    def holding(self, session: Rows, ids: set[int]) -> dict[int, NodeName]:
        """Return the names of nodes by the ids of contents, without contents that belong to no node."""
        if not ids <= self._holding.keys():
            self._look_for_contents(session, "nodes_holding", list(ids))
        return self._holding

    def _look_for_contents(
        self, session: Rows, query: str, keys: list[NodeName] | list[int]
    ) -> None:
        for name, number in session.rows(query, packed_keys(keys)):
            self.note_contents(NodeName(name), number)


def packed_keys(keys: object) -> str:
    """Return keys in the form that statements take."""
    return msgspec.json.encode(keys).decode()
