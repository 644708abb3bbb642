"""An open transaction of PostgreSQL: statements by name, sent on without waiting for what need not be known yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pubqueue.app.ports import StaleError
from pubqueue.stores.postgres.arrays import columns
from pubqueue.stores.postgres.queries import ARRAYS, SQL
from pubqueue.stores.relational import session

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from psycopg import Connection, Cursor, Pipeline

    from pubqueue.stores.relational.node_ids import NodeIds
    from pubqueue.stores.relational.session import Values

NOTE: Final = """
    WITH counted AS (UPDATE writing SET batches = batches + 1)
    INSERT INTO writer (id, batch) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET batch = excluded.batch, seen = now()
"""
"""That a batch writes: others see it by the count, its writer finds out by its own row whether it was committed."""


class Session(session.Session):
    """Runs statements by name in a pipeline. `mark` is what the batch is to be known by; a reader has none."""

    def __init__(
        self,
        pipeline: Pipeline,
        connection: Connection,
        names: NodeIds,
        mark: tuple[str, int] | None,
    ) -> None:
        super().__init__(names)
        self._pipeline = pipeline
        self._connection = connection
        self._mark = mark
        self._owed: list[tuple[str, int, Cursor]] = []
        self.written = False

    def rows(self, query: str, *values: object) -> list[Any]:
        """Return all rows of a statement."""
        return self._send(query, values).fetchall()

    def row(self, query: str, *values: object) -> Any:  # noqa: ANN401  # a row of that query
        """Return the first row, None if there is none."""
        return self._send(query, values).fetchone()

    def stream(self, query: str, room: int, *values: object) -> Iterator[Any]:
        """Yield rows whose last column is a payload: the statement itself ends where there is no more room."""
        return iter(self.rows(query, *values, room))

    def run(self, query: str, *values: object) -> None:
        """Run a statement, however many rows it changes."""
        self.note()
        self._send(query, values)

    def must(self, query: str, count: int, *values: object) -> None:
        """Run a statement that has to change so many rows; `settle` sees to that."""
        self.note()
        self._owed.append((query, count, self._send(query, values)))

    def many(self, query: str, values: Sequence[Values]) -> None:
        """Run a statement for each of these, however many rows that changes."""
        if values:
            self.run(query, *columns(ARRAYS[query], values))

    def each(self, query: str, values: Sequence[Values]) -> None:
        """Run a statement for each of these, that has to change one row each time; `settle` sees to that."""
        if values:
            self.must(query, len(values), *columns(ARRAYS[query], values))

    def note(self) -> None:
        """Say once that this batch writes."""
        if not self.written:
            self.written = True
            if self._mark is not None:
                self._connection.execute(NOTE, self._mark)

    def settle(self) -> None:
        """Wait for what was sent, and see that it has changed as many rows as it had to.

        Raises:
            StaleError: it has not.

        """
        if not self._owed and not self.written:
            return
        self._pipeline.sync()
        owed, self._owed = self._owed, []
        for query, count, cursor in owed:
            if cursor.rowcount != count:
                raise StaleError(query)

    def _send(self, query: str, values: Sequence[object]) -> Cursor:
        return self._connection.cursor(binary=True).execute(SQL[query], values)
