"""Kinds of rows, and dictionaries by kind: of keys, of rows, of writes.

A row of a kind is found by its key alone. The kinds are listed in `rows.KINDS`.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

K = TypeVar("K")
Row = TypeVar("Row", bound=Struct)


class RowKind(Generic[K, Row]):
    """A kind of row. A key without a row is None.

    `key` and `guard` are fields of the row: a write finds the stored row by the key and compares the guard. A row that is
    `kept` is remembered between batches. A row that is `always_written` is written even if the batch left it as it was:
    the write checks that no other process has changed it.
    """

    def __init__(  # one line of a table
        self,
        name: str,
        one: str,
        row: type[Row],
        *,
        key: Sequence[str],
        guard: Sequence[str] = (),
        kept: bool = False,
        always_written: bool = False,
    ) -> None:
        self.name = name
        """The name of the statement that loads rows."""
        self.one = one
        """The last part of the names of the statements that write a row, `add_`, `change_` and `drop_`; empty if rows are only loaded."""
        self.row = row
        self.key, self.guard = tuple(key), tuple(guard)
        self.facts = tuple(field for field in row.__struct_fields__ if field not in self.key)
        self.kept = kept
        self.always_written = always_written
        self.key_of: Callable[[Row], K] = attrgetter(*key)  # type: ignore[assignment]  # K is what these fields hold
        """The key of a row: the value of its field, a tuple if there are several."""

    def __repr__(self) -> str:
        """Return its name."""
        return self.name


class KeysByKind(dict[RowKind[Any, Any], set[Any]]):
    """Keys of rows."""

    if TYPE_CHECKING:

        def __getitem__(self, kind: RowKind[K, Row]) -> set[K]: ...

    def __missing__(self, kind: RowKind[K, Row]) -> set[K]:
        """Begin to request rows of a kind."""
        keys = self[kind] = set()
        return keys


class RowsByKind(dict[RowKind[Any, Any], "list[Any]"]):
    """Rows that were found: kinds with any rows."""

    if TYPE_CHECKING:

        def __getitem__(self, kind: RowKind[K, Row]) -> list[Row]: ...

    def __missing__(self, kind: RowKind[K, Row]) -> list[Row]:
        """Return no rows."""
        return []


class TablesByKind(dict[RowKind[Any, Any], "dict[Any, Any]"]):
    """Tables of rows by key; None is a row that is known not to exist."""

    if TYPE_CHECKING:

        def __getitem__(self, kind: RowKind[K, Row]) -> dict[K, Row | None]: ...

    def __missing__(self, kind: RowKind[K, Row]) -> dict[K, Row | None]:
        """Begin a table."""
        table = self[kind] = {}
        return table
