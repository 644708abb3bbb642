"""The ids of nodes by their names and back: statements know a node by its number.

A node never changes its name and an id is never used again, so what is remembered holds until a node is
deleted. The memory is dropped when a transaction is undone and when another process has written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pubqueue.core.model import NodeName
from pubqueue.stores.sqlite.queries import SQL

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable


class NodeIds:
    """What is remembered of the nodes of one file."""

    def __init__(self) -> None:
        self._ids: dict[NodeName, int] = {}
        self._names: dict[int, NodeName] = {}

    def clear(self) -> None:
        """Remember nothing."""
        self._ids.clear()
        self._names.clear()

    def note(self, name: NodeName, number: int) -> None:
        """Remember a node."""
        self._ids[name] = number
        self._names[number] = name

    def forget(self, name: NodeName) -> None:
        """Forget a node that is deleted."""
        self._names.pop(self._ids.pop(name, 0), None)

    def ids(self, connection: sqlite3.Connection, names: Iterable[NodeName]) -> dict[NodeName, int]:
        """Return the ids by name, of all nodes that are remembered and of these as far as they are there."""
        if missing := [name for name in names if name not in self._ids]:
            self._look(connection, "node_ids", missing)
        return self._ids

    def names(self, connection: sqlite3.Connection, ids: set[int]) -> dict[int, NodeName]:
        """Return the names by id, of all nodes that are remembered and of these."""
        if not ids <= self._names.keys():
            self._look(connection, "node_names", list(ids))
        return self._names

    def _look(
        self, connection: sqlite3.Connection, query: str, keys: list[NodeName] | list[int]
    ) -> None:
        for name, number in connection.execute(SQL[query], (packed_keys(keys),)):
            self.note(NodeName(name), number)


def packed_keys(keys: object) -> str:
    """Return keys as a statement takes them."""
    return msgspec.json.encode(keys).decode()
