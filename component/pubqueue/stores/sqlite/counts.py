"""The counts of a batch, gathered and written once.

How many items a node has and how many a subscriber holds are kept in their rows, so that no request has
to count. A batch changes them hundreds of times; the rows are written when somebody reads them, and
at the end.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pubqueue.stores.sqlite.ledger import Ledger
from pubqueue.stores.sqlite.queries import SQL

if TYPE_CHECKING:
    import sqlite3

    from pubqueue.core.model import Jid, NodeName

Marks = tuple[
    Counter[str], Counter[tuple[str, str]], dict[tuple[str, str], int], set[tuple[str, str]]
]


class Counts:
    """What the changes of a transaction have added to the counts and not yet written."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._items: Counter[str] = Counter()
        self._locks: Counter[tuple[str, str]] = Counter()
        self._served: dict[tuple[str, str], int] = {}
        self._reached: set[tuple[str, str]] = set()
        self.ledger = Ledger(connection)

    def item(self, node: NodeName, by: int) -> None:
        """Count an item more, or one less."""
        self._items[node] += by

    def locked(self, node: NodeName, holder: Jid, token: int) -> None:
        """Count a lock more for its holder."""
        self._locks[node, holder] += 1
        self._served[node, holder] = token

    def freed(self, node: NodeName, holder: Jid | None, *, retracted: bool = False) -> None:
        """Count a lock less, if there was one; a retract shows that deliveries arrive."""
        if holder is not None:
            self._locks[node, holder] -= 1
            if retracted:
                self._reached.add((node, holder))

    def items_of(self, node: NodeName) -> int:
        """Return what is not yet written about a node's items."""
        return self._items[node]

    def write(self) -> None:
        """Write what has gathered. A node or a subscription that is gone by now needs no count."""
        if self._items:
            self._connection.executemany(
                SQL["count_items"], [(by, node) for node, by in self._items.items() if by]
            )
            self._items.clear()
        if self._locks:
            self._connection.executemany(
                SQL["count_locks"],
                [
                    (by, self._served.get(key, 0), key not in self._reached, *key)
                    for key, by in self._locks.items()
                ],
            )
            self._reached.clear()
            self._locks.clear()
            self._served.clear()
        self.ledger.write()

    def mark(self) -> Marks:
        """Return what has gathered so far, to come back to."""
        self.ledger.write()
        return self._items.copy(), self._locks.copy(), self._served.copy(), self._reached.copy()

    def back_to(self, marks: Marks) -> None:
        """Forget what has gathered since the mark."""
        self._items, self._locks, self._served, self._reached = marks
        self.ledger.forget()
