"""The interfaces of the two ends of a copy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from pubqueue.engine.ports import StoreError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping, Sequence

    from pubqueue.stores.copying.tables import DatabaseTable

Row = tuple[Any, ...]

WAITING: Final = 5.0
"""Seconds to wait for a lock that another process holds."""

AT_ONCE: Final = 500
"""The maximum number of rows that are written together."""

BYTES_AT_ONCE: Final = 4 << 20
"""Bytes after which no further row is written together with others."""


class RefusedError(StoreError):
    """Nothing was done: these two stores cannot be copied in this way."""


class StoreReader(Protocol):
    """A store whose rows are read. `name` is its address for display, without credentials."""

    name: str

    def tables(self) -> dict[str, DatabaseTable]:
        """Return its tables, by name."""

    def count(self, table: DatabaseTable) -> int:
        """Return how many rows a table has."""

    def rows(self, table: DatabaseTable) -> Generator[Row, None, None]:
        """Yield all rows in the order of their key, one by one; numbers, texts, bytes and None."""

    def last_numbers(self) -> dict[str, int]:
        """Return the last number that was used, for each table whose numbers are never reused."""

    def died(self) -> list[int]:
        """Return the numbers of processes that have ended without leaving."""


class Source(StoreReader, Protocol):
    """A store that does not change while it is read."""


class Target(StoreReader, Protocol):
    """A store that is empty, or has been filled by a copy."""

    def copied_from(self) -> str | None:
        """Return the source of the unfinished copy in it, None if there is none."""

    def is_empty(self) -> bool:
        """Return whether it has no contents."""

    def begin(self, source: str) -> None:
        """Mark it as the unfinished copy of that store, and remove the rows of an earlier attempt.

        From here on no process serves from it, however this process ends.
        """

    def fill(self, table: DatabaseTable, rows: Iterable[Row]) -> None:
        """Write these rows."""

    def finish(self, last: Mapping[str, int], died: Sequence[int]) -> None:
        """Let numbers continue after these, note the processes that died, and remove the mark."""
