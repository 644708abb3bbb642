"""An open transaction of SQLite: statements by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pubqueue.engine.ports import StaleError, StoreError
from pubqueue.stores.sql import session
from pubqueue.stores.sqlite.queries import SQL

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Sequence

    from pubqueue.stores.sql.node_ids import NodeIds
    from pubqueue.stores.sql.session import Values


class SqliteSession(session.SqlSession):
    """Runs statements by name, each at once."""

    def __init__(self, connection: sqlite3.Connection, names: NodeIds) -> None:
        super().__init__(names)
        self.connection = connection

    def check(self) -> None:
        """Check that the transaction is still open.

        Raises:
            StoreError: SQLite has ended it by itself, for example for a full disk; each further statement would
                commit on its own.

        """
        if not self.connection.in_transaction:
            raise StoreError("the transaction is lost")

    def rows(self, query: str, *values: object) -> list[Any]:
        """Return all rows of a statement."""
        return self.connection.execute(SQL[query], values).fetchall()

    ask = rows

    def rows_as_found(self, query: str, *values: object) -> list[Any]:
        """Return all rows of a statement; a text that is not UTF-8 is returned as bytes, because SQLite keeps any bytes."""
        text, self.connection.text_factory = self.connection.text_factory, _text_or_bytes
        try:
            return self.rows(query, *values)
        finally:
            self.connection.text_factory = text

    def row(self, query: str, *values: object) -> Any:  # noqa: ANN401  # a row of that query
        """Return the first row, None if there is none."""
        return self.connection.execute(SQL[query], values).fetchone()

    def stream(self, query: str, room: int, *values: object) -> Iterator[Any]:  # noqa: ARG002  # the reader stops
        """Yield rows one by one, so that no payload is read needlessly."""
        cursor = self.connection.execute(SQL[query], values)
        try:
            yield from cursor
        finally:
            cursor.close()

    def run(self, query: str, *values: object) -> None:
        """Run a statement, however many rows it changes."""
        self.connection.execute(SQL[query], values)

    def must(self, query: str, count: int, *values: object) -> None:
        """Run a statement that has to change `count` rows."""
        if self.connection.execute(SQL[query], values).rowcount != count:
            raise StaleError(query)

    def many(self, query: str, values: Sequence[Values]) -> None:
        """Run a statement for each of these values, however many rows that changes."""
        if values:
            self.connection.executemany(SQL[query], values)

    def each(self, query: str, values: Sequence[Values]) -> None:
        """Run a statement for each of these values; each time it has to change one row."""
        if values and self.connection.executemany(SQL[query], values).rowcount != len(values):
            raise StaleError(query)


def _text_or_bytes(byte_count: bytes) -> str | bytes:
    try:
        return byte_count.decode()
    except UnicodeDecodeError:
        return byte_count
