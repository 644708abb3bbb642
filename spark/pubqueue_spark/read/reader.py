"""The two readers of Spark's interface, one for a batch and one for a stream.

Spark pickles them into the tasks, where they use the stream of the Python process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from pubqueue_spark import session
from pubqueue_spark.read import table_reads
from pubqueue_spark.read.ranges import begin
from pubqueue_spark.read.service_pages import ServicePages
from pubqueue_spark.read.table_reads import ReadPartition

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.streaming.datasource import ReadLimit

    from pubqueue_spark.read.options import ReadSettings
    from pubqueue_spark.read.tables import Row

    Offset = dict[str, int]


def rows(settings: ReadSettings, part: InputPartition) -> Iterator[Row]:
    """Yield the rows of a part; called in a task."""
    if not isinstance(part, ReadPartition):  # Spark starts a task even if there is nothing to read
        return iter(())
    task = TaskContext.get()
    application = task and task.getLocalProperty("spark.app.id")
    who = f"the task of numbers {part.after + 1} to {part.until}"
    service = ServicePages(settings, who, application or "application")
    return table_reads.of(service).rows(part)


class PubqueueReader(DataSourceReader):
    """Reads the current rows of a table.

    It accepts no filters from Spark: Spark refuses a reader that does unless a setting is on, which is off by default.
    Options limit the numbers instead.
    """

    def __init__(self, settings: ReadSettings) -> None:
        self._settings = settings

    def partitions(self) -> Sequence[InputPartition]:
        """Plan the partitions, on the driver, with an upper bound, so that later entries are in no range."""
        settings = self._settings
        table = table_reads.of(ServicePages(settings))
        base, newest = table.ends()
        after = begin(settings.start, base, newest, table.first)
        until = begin(settings.end, base, newest, table.first)
        return table.parts(after, min(until, newest))

    def read(self, partition: InputPartition) -> Iterator[Row]:
        """Read a range."""
        return rows(self._settings, partition)


class PubqueueStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows a table whose numbers increase. An offset is the last number that was read."""

    def __init__(self, settings: ReadSettings) -> None:
        self._settings = settings
        self._newest: int | None = None
        self._target: int | None = None

    def initialOffset(self) -> Offset:  # noqa: N802  Spark's
        """Return where a query without a checkpoint starts."""
        table = table_reads.of(ServicePages(self._settings))
        return {"seq": begin(self._settings.start, *table.ends(), table.first)}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return how much a micro-batch reads."""
        most = self._settings.most
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """Return the end of the next micro-batch; it is monotonic, even if the service has lost entries."""
        table = table_reads.of(ServicePages(self._settings))
        _, self._newest = table.ends()
        table.check(start["seq"], self._newest)
        end = self._newest if self._target is None else min(self._newest, self._target)
        if isinstance(limit, ReadMaxRows):
            end = min(end, start["seq"] + limit.max_rows)
        return {"seq": max(start["seq"], end)}

    def reportLatestOffset(self) -> Offset | None:  # noqa: N802
        """Return the newest offset that was seen, for the progress of the query."""
        return None if self._newest is None else {"seq": self._newest}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Record the current end, at which the query ends."""
        _, self._target = table_reads.of(ServicePages(self._settings)).ends()

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Plan a micro-batch."""
        return table_reads.of(ServicePages(self._settings)).parts(start["seq"], end["seq"])

    def read(self, partition: InputPartition) -> Iterator[Row]:
        """Read a range, in a task."""
        return rows(self._settings, partition)

    def stop(self) -> None:
        """Log out; no other query uses this process."""
        session.pool().close()
