"""What there is to copy: the tables of a store, as its own schema tells them, in words that all stores share.

A table or a column that is added to the schemas of both is copied without a word here. What only one of them has is named
in this file, with its reason; anything else in which they differ is an error, and fails a test.
"""

from __future__ import annotations

from graphlib import TopologicalSorter
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pubqueue.app.store.ports import StoreError

if TYPE_CHECKING:
    from collections.abc import Mapping

COPYING: Final = "copying"
"""The table that says of what store this one is the unfinished copy; it is there no longer than that."""

BACKUP: Final = "backup"
"""The table of a backup that says what it is a backup of."""

OF_PROCESSES: Final = frozenset({"pubqueue", "writing", "writer", "instance", "winner", "met"})
"""What PostgreSQL keeps in tables for its processes, and SQLite elsewhere. Of `instance` those are carried that died."""

RENAMED: Final = {("staged", "row"): "place"}
"""What SQLite calls otherwise: `row` is a word of PostgreSQL's own."""

KEYS: Final = {"receipt": ("seq", "jid")}
"""The order of the rows of tables that have no primary key everywhere."""


class DatabaseTable(Struct, frozen=True):
    """A table: the kind of each column (integer, text, bytes, real), the order of its rows, and what they refer to."""

    name: str
    kinds: Mapping[str, str]
    key: tuple[str, ...]
    refers: frozenset[str] = frozenset()

    @property
    def columns(self) -> tuple[str, ...]:
        """Its columns, in an order that does not depend on the store."""
        return tuple(sorted(self.kinds))


def agreed(
    source: Mapping[str, DatabaseTable], target: Mapping[str, DatabaseTable]
) -> list[DatabaseTable]:
    """Return the tables of both, in an order in which their rows can be written.

    Raises:
        StoreError: they are not the same; then a migration has been forgotten.

    """
    if unlike := differences(source, target):
        raise StoreError(f"the schemas differ: {'; '.join(unlike)}")
    rows_of = {name: sorted(target[name].refers - {name}) for name in sorted(target)}
    return [source[name] for name in TopologicalSorter(rows_of).static_order()]


def differences(one: Mapping[str, DatabaseTable], other: Mapping[str, DatabaseTable]) -> list[str]:
    """Return in which tables and columns they differ."""
    only = [f"only one has {name}" for name in sorted(one.keys() ^ other.keys())]
    for name in sorted(one.keys() & other.keys()):
        unlike = set(one[name].kinds.items()) ^ set(other[name].kinds.items())
        only += [f"{name}.{column} is {kind} in one only" for column, kind in sorted(unlike)]
    return only
