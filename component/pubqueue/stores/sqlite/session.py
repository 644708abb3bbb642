"""An open transaction of SQLite, and what those who read and write in it share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pubqueue.app.ports import StaleError, StoreError
from pubqueue.stores.sqlite.queries import SQL

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

    from pubqueue.core.model import NodeName
    from pubqueue.stores.sqlite.node_ids import NodeIds

Values = tuple[object, ...]


class Session:
    """Runs statements by name. `met` are the nodes whose winners have met finished work."""

    def __init__(self, connection: sqlite3.Connection, names: NodeIds) -> None:
        self.connection = connection
        self.nodes = names
        self.met: set[NodeName] = set()

    def check(self) -> None:
        """See that the transaction is still open.

        Raises:
            StoreError: SQLite has ended it by itself, as for a full disk: what came next would be committed
                piecemeal.

        """
        if not self.connection.in_transaction:
            raise StoreError("the transaction is lost")

    def rows(self, query: str, *values: object) -> list[Any]:
        """Return all rows of a statement."""
        return self.connection.execute(SQL[query], values).fetchall()

    def row(self, query: str, *values: object) -> Any:  # noqa: ANN401  # a row of that query
        """Return the first row, None if there is none."""
        return self.connection.execute(SQL[query], values).fetchone()

    def run(self, query: str, *values: object) -> int:
        """Run a statement and return how many rows it changed."""
        return self.connection.execute(SQL[query], values).rowcount

    def must(self, query: str, count: int, *values: object) -> None:
        """Run a statement that has to change so many rows."""
        if self.run(query, *values) != count:
            raise StaleError(query)

    def many(self, query: str, values: Sequence[Values]) -> int:
        """Run a statement for each of these and return how many rows that changed."""
        if not values:
            return 0
        return self.connection.executemany(SQL[query], values).rowcount

    def each(self, query: str, values: Sequence[Values]) -> None:
        """Run a statement for each of these, that has to change one row each time."""
        if self.many(query, values) != len(values):
            raise StaleError(query)

    def ids(self, names: Iterable[NodeName]) -> dict[NodeName, int]:
        """Return the ids of nodes by name; those that are not there are not in it."""
        return self.nodes.ids(self.connection, names)

    def id(self, name: NodeName) -> int:
        """Return the id of a node, 0 if it is not there."""
        return self.ids((name,)).get(name, 0)

    def names(self, ids: set[int]) -> dict[int, NodeName]:
        """Return the names of nodes by id."""
        return self.nodes.names(self.connection, ids)

    def contents(self, names: Iterable[NodeName]) -> dict[NodeName, int]:
        """Return the ids of the contents of nodes by name."""
        return self.nodes.contents(self.connection, names)

    def contents_of(self, name: NodeName) -> int:
        """Return the id of the contents of a node, 0 if it is not there."""
        return self.contents((name,)).get(name, 0)

    def holding(self, ids: set[int]) -> dict[int, NodeName]:
        """Return the names of nodes by the ids of contents; nobody's are not in it."""
        return self.nodes.holding(self.connection, ids)
