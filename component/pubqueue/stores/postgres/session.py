"""An open transaction of PostgreSQL: statements by name, sent without waiting for answers that are not needed yet."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from pubqueue.stores.postgres.arrays import columns
from pubqueue.stores.postgres.errors import translated
from pubqueue.stores.postgres.instances.instances import CHANNEL
from pubqueue.stores.postgres.queries import ARRAYS, GUARDED, SQL
from pubqueue.stores.sql import session

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from psycopg import Connection, Cursor

    from pubqueue.stores.sql.node_ids import NodeIds
    from pubqueue.stores.sql.session import Values

NOTE: Final = f"""
    WITH counted AS (UPDATE writing SET batches = batches + 1)
    INSERT INTO writer (id, batch) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET batch = excluded.batch, seen = now()
    RETURNING CASE WHEN EXISTS (SELECT 1 FROM instance WHERE number <> $3) THEN pg_notify('{CHANNEL}', $1) END
"""  # noqa: S608  # ours
"""Notes that a batch writes. Other processes see that by the count; the writer's own row shows whether it was committed.

If other processes serve too, the commit notifies them. A process that is alone sends no notification, because that costs a
lock over all databases.
"""

FORGET: Final = "UPDATE writing SET nodes = nodes + 1"


class _Answer:
    """Rows that are not read yet."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor

    def __iter__(self) -> Iterator[Any]:
        with translated():
            return iter(self._cursor.fetchall())


class PostgresSession(session.SqlSession):
    """Runs statements by name in a pipeline.

    `mark` identifies a batch: its process, which of its batches it is, and its number there. A reader has none.

    `numbers` are the next ones of all sequences. No other process can take any while the batch holds the lock, so they
    are reserved without waiting for an answer.
    """

    def __init__(
        self,
        connection: Connection,
        names: NodeIds,
        mark: tuple[str, int, int] | None,
        numbers: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        super().__init__(names)
        self._numbers = dict(numbers)
        self._connection = connection
        self._mark = mark
        self.written = False

    def rows(self, query: str, *values: object) -> list[Any]:
        """Return all rows of a statement."""
        return list(self.ask(query, *values))

    def ask(self, query: str, *values: object) -> Iterable[Any]:
        """Ask for the rows of a statement; iterating them waits for the answer."""
        return _Answer(self._send(SQL[query], values))

    def row(self, query: str, *values: object) -> Any:  # noqa: ANN401  # a row of that query
        """Return the first row, None if there is none."""
        return next(iter(self.ask(query, *values)), None)

    def stream(self, query: str, room: int, *values: object) -> Iterator[Any]:
        """Yield rows whose last column is a payload; the statement itself stops when `room` is used up."""
        return iter(self.rows(query, *values, room))

    def run(self, query: str, *values: object) -> None:
        """Run a statement, however many rows it changes."""
        self.note()
        self._send(SQL[query], values)

    def must(self, query: str, count: int, *values: object) -> None:
        """Run a statement that has to change `count` rows; otherwise the transaction fails."""
        self.note()
        self._send(GUARDED[query], (*values, count))

    def many(self, query: str, values: Sequence[Values]) -> None:
        """Run a statement for each of these values, however many rows that changes."""
        if values:
            self.run(query, *columns(ARRAYS[query], values))

    def each(self, query: str, values: Sequence[Values]) -> None:
        """Run a statement for each of these values; each time it has to change one row."""
        if values:
            self.must(query, len(values), *columns(ARRAYS[query], values))

    def number(self, sequence: str, count: int) -> int:
        """Reserve `count` numbers of a sequence and return the first."""
        first = self._numbers.get(sequence, 1)
        if count:
            self.run("number", count, sequence)
            self._numbers[sequence] = first + count
        return first

    def forget_nodes(self) -> None:
        """Let every process look up the ids of nodes again: some no longer exist."""
        self._send(FORGET, ())

    def note(self) -> None:
        """Note, once for the batch, that it writes."""
        if not self.written:
            self.written = True
            if self._mark is not None:
                self._send(NOTE, self._mark)

    def _send(self, statement: str, values: Sequence[object]) -> Cursor:
        with translated():
            return self._connection.cursor(binary=True).execute(statement, values)
