"""Rows by their keys, and a journal of what they were, so that a batch which fails can be undone.

All that the store knows is in tables, or follows from them: who watches a table keeps what follows, in a
batch and when one is undone alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

K = TypeVar("K")
V = TypeVar("V")


class Journal:
    """What rows were before the batch changed them, in the order of the changes."""

    def __init__(self) -> None:
        self._entries: list[tuple[Table[Any, Any], Any, Any]] = []

    def mark(self) -> int:
        """Return where the journal is, to come back to."""
        return len(self._entries)

    def note(self, table: Table[K, V], key: K, row: V | None) -> None:
        """Keep what the row is before it changes."""
        self._entries.append((table, key, row))

    def undo(self, mark: int = 0) -> None:
        """Let every row be what it was at the mark."""
        while len(self._entries) > mark:
            table, key, row = self._entries.pop()
            table.set(key, row)

    def keep(self) -> None:
        """Let what was done stand."""
        self._entries.clear()


class Table(Generic[K, V]):
    """Rows of one kind. `watch` is told of every change: the key, what the row was, and what it is."""

    __slots__ = ("_journal", "_watch", "rows")

    def __init__(
        self, journal: Journal, watch: Callable[[K, V | None, V | None], None] | None = None
    ) -> None:
        self.rows: dict[K, V] = {}
        self._journal = journal
        self._watch = watch

    def put(self, key: K, row: V | None) -> None:
        """Let this be the row from now on; None removes it."""
        self._journal.note(self, key, self.rows.get(key))
        self.set(key, row)

    def set(self, key: K, row: V | None) -> None:
        """Do the same without a note."""
        before = self.rows.get(key)
        if row is not None:
            self.rows[key] = row
        elif before is not None:
            del self.rows[key]
        if self._watch is not None:
            self._watch(key, before, row)
