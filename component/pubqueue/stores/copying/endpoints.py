"""The two ends of a copy, whatever they are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from pubqueue.app.store.ports import StoreError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping, Sequence

    from pubqueue.stores.copying.tables import DatabaseTable

Row = tuple[Any, ...]

WAITING: Final = 5.0
"""Seconds to wait for a lock that somebody else holds."""

AT_ONCE: Final = 500
"""Rows that are written together, at most."""

BYTES_AT_ONCE: Final = 4 << 20
"""Bytes after which no further row is written together with others."""


class RefusedError(StoreError):
    """Nothing was done: these two stores cannot be copied in this way."""


class StoreReader(Protocol):
    """A store whose rows are read. `name` is how it is shown, without who may use it."""

    name: str

    def tables(self) -> dict[str, DatabaseTable]:
        """Return what it has, by name."""

    def count(self, table: DatabaseTable) -> int:
        """Return how many rows a table has."""

    def rows(self, table: DatabaseTable) -> Generator[Row, None, None]:
        """Yield all rows in the order of their key, one by one; numbers, texts, bytes and None."""

    def last_numbers(self) -> dict[str, int]:
        """Return the last number that was given to a row of each table whose numbers are never given again."""

    def died(self) -> list[int]:
        """Return the numbers of processes that have ended without leaving."""


class Source(StoreReader, Protocol):
    """A store that stands still while it is read."""


class Target(StoreReader, Protocol):
    """A store that is empty, or has been filled by a copy."""

    def copied_from(self) -> str | None:
        """Return what store it is the unfinished copy of, None if it is none."""

    def is_empty(self) -> bool:
        """Say whether nothing is kept there."""

    def begin(self, source: str) -> None:
        """Mark it as the unfinished copy of that store, and remove what an earlier attempt has brought.

        From here on nobody serves from it, whatever ends this process.
        """

    def fill(self, table: DatabaseTable, rows: Iterable[Row]) -> None:
        """Write these rows."""

    def finish(self, last: Mapping[str, int], died: Sequence[int]) -> None:
        """Let numbers go on behind these, take note of the processes that died, and take the mark away."""
