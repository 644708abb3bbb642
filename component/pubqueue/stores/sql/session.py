"""An open transaction, for the code that reads and writes rows: statements by name, and the ids of nodes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from pubqueue.engine.ports import StaleError
from pubqueue.stores.sql.node_ids import packed_keys

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pubqueue.model.entities import NodeName
    from pubqueue.stores.sql.node_ids import NodeIds

Values = tuple[object, ...]


class SqlSession(ABC):
    """Runs statements by name. `met` are the nodes whose winners conflict with finished work."""

    def __init__(self, names: NodeIds) -> None:
        self.nodes = names
        self.met: set[NodeName] = set()

    @abstractmethod
    def rows(self, query: str, *values: object) -> list[Any]:
        """Return all rows of a statement."""

    def rows_as_found(self, query: str, *values: object) -> list[Any]:
        """Return all rows of a statement; a damaged text, which is not UTF-8, is returned as bytes."""
        return self.rows(query, *values)

    @abstractmethod
    def ask(self, query: str, *values: object) -> Iterable[Any]:
        """Ask for the rows of a statement. They may be read later, when they are iterated, which can be done once."""

    @abstractmethod
    def row(self, query: str, *values: object) -> Any:  # noqa: ANN401  # a row of that query
        """Return the first row, None if there is none."""

    @abstractmethod
    def stream(self, query: str, room: int, *values: object) -> Iterator[Any]:
        """Yield rows whose last column is a payload, at least until the payloads are more than `room` bytes."""

    @abstractmethod
    def run(self, query: str, *values: object) -> None:
        """Run a statement, however many rows it changes."""

    @abstractmethod
    def must(self, query: str, count: int, *values: object) -> None:
        """Run a statement that has to change `count` rows; otherwise the write is stale."""

    @abstractmethod
    def many(self, query: str, values: Sequence[Values]) -> None:
        """Run a statement for each of these values, however many rows that changes."""

    @abstractmethod
    def each(self, query: str, values: Sequence[Values]) -> None:
        """Run a statement for each of these values; each time it has to change one row, otherwise the write is stale."""

    def ask_keys(self, query: str, keys: object) -> Iterable[Any]:
        """Ask for the rows of these keys."""
        return self.ask(query, packed_keys(keys))

    def ask_by_node(self, query: str, pairs: Iterable[tuple[NodeName, str]]) -> Iterable[Any]:
        """Ask for the rows of these pairs of a node and a key; a node that does not exist has no rows."""
        lists: defaultdict[NodeName, list[str]] = defaultdict(list)
        for node, key in pairs:
            lists[node].append(key)
        ids = self.contents(lists) if query == "items" else self.ids(lists)
        keys = {str(ids[node]): some for node, some in lists.items() if node in ids}
        return self.ask_keys(query, keys) if keys else ()

    def number(self, sequence: str, count: int) -> int:
        """Reserve `count` numbers of a sequence and return the first."""
        return int(self.row("number", count, sequence)[0])

    def forget_nodes(self) -> None:  # noqa: B027  # most stores have no others to notify
        """Note that a node is purged or deleted whose ids other processes may have cached."""

    def knows(self, names: Iterable[NodeName]) -> bool:
        """Return whether the ids of all these nodes are cached."""
        return self.nodes.knows(names)

    def ids(self, names: Iterable[NodeName]) -> dict[NodeName, int]:
        """Return the ids of nodes by name, without nodes that do not exist."""
        return self.nodes.ids(self, names)

    def id(self, name: NodeName) -> int:
        """Return the id of a node, 0 if it does not exist."""
        return self.ids((name,)).get(name, 0)

    def known_id(self, name: NodeName) -> int:
        """Return the id of a node.

        Raises:
            StaleError: the node does not exist.

        """
        found = self.id(name)
        if not found:
            raise StaleError("node", name)
        return found

    def names(self, ids: set[int]) -> dict[int, NodeName]:
        """Return the names of nodes by id."""
        return self.nodes.names(self, ids)

    def contents(self, names: Iterable[NodeName]) -> dict[NodeName, int]:
        """Return the ids of the contents of nodes by name."""
        return self.nodes.contents(self, names)

    def contents_of(self, name: NodeName) -> int:
        """Return the id of the contents of a node, 0 if it does not exist."""
        return self.contents((name,)).get(name, 0)

    def holding(self, ids: set[int]) -> dict[int, NodeName]:
        """Return the names of nodes by the ids of contents, without contents that belong to no node."""
        return self.nodes.holding(self, ids)
