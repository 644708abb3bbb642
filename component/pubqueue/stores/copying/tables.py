"""The tables to copy, read from a store's own schema, in terms that all stores share.

A table or a column that is added to both schemas is copied without a change here. What only one of them has is listed in this
file, with the reason; any other difference is an error, and fails a test.
"""

from __future__ import annotations

from graphlib import TopologicalSorter
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pubqueue.engine.ports import StoreError

if TYPE_CHECKING:
    from collections.abc import Mapping

COPYING: Final = "copying"
"""The table with the source of an unfinished copy; it exists only until the copy is complete."""

BACKUP: Final = "backup"
"""The table of a backup that describes it."""

OF_PROCESSES: Final = frozenset({"pubqueue", "writing", "writer", "instance", "winner", "met"})
"""Tables for processes in PostgreSQL, which SQLite keeps elsewhere. Of `instance` the processes that died are copied."""

RENAMED: Final = {("staged", "row"): "place"}
"""Columns with another name in SQLite: `row` is a keyword of PostgreSQL."""

KEYS: Final = {"receipt": ("seq", "jid"), "ping_answer": ("jid",)}
"""The order of the rows of tables that do not have a primary key in every store."""


class DatabaseTable(Struct, frozen=True):
    """A table: the kind of each column (integer, text, bytes, real), the order of its rows, and the tables they refer to."""

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
    """Return the tables of both stores, in an order in which their rows can be written.

    Raises:
        StoreError: they are not the same, so a migration is missing.

    """
    if unlike := differences(source, target):
        raise StoreError(f"the schemas differ: {'; '.join(unlike)}")
    rows_of = {name: sorted(target[name].refers - {name}) for name in sorted(target)}
    return [source[name] for name in TopologicalSorter(rows_of).static_order()]


def differences(one: Mapping[str, DatabaseTable], other: Mapping[str, DatabaseTable]) -> list[str]:
    """Return the tables and columns in which they differ, each as a text."""
    only = [f"only one has {name}" for name in sorted(one.keys() ^ other.keys())]
    for name in sorted(one.keys() & other.keys()):
        unlike = set(one[name].kinds.items()) ^ set(other[name].kinds.items())
        only += [f"{name}.{column} is {kind} in one only" for column, kind in sorted(unlike)]
    return only
