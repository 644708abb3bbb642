"""The two readers of Spark's interface, one for a batch and one for a stream.

Spark pickles them into the tasks, where they use the stream of the Python process.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from pubqueue_spark import session
from pubqueue_spark.errors import OptionError
from pubqueue_spark.read import table_reads
from pubqueue_spark.read.ranges import begin
from pubqueue_spark.read.service_pages import ServicePages
from pubqueue_spark.read.table_reads import ReadPartition

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.streaming.datasource import ReadLimit

    from pubqueue_spark.read.options import ReadSettings
    from pubqueue_spark.read.table_reads import TableRead
    from pubqueue_spark.read.tables import Row

    Offset = dict[str, int]


def rows(settings: ReadSettings, part: InputPartition) -> Iterator[Row]:
    """Yield the rows of a part; called in a task."""
    if not isinstance(part, ReadPartition):  # Spark starts a task even if there is nothing to read
        return iter(())
    task = TaskContext.get()
    application = task and task.getLocalProperty("spark.app.id")
    who = f"the task of numbers {part.after + 1} to {part.until}"
    service = ServicePages(settings.at(part.service), who, application or "application")
    found = table_reads.of(service).rows(part)
    return ((*row, part.service) for row in found) if settings.has_service else found


def _tables(settings: ReadSettings) -> list[tuple[ReadSettings, TableRead]]:
    """Return the table at each service, with the settings for it."""
    return [(one, table_reads.of(ServicePages(one))) for one in settings.of_each()]


def _parts(one: ReadSettings, table: TableRead, after: int, until: int) -> list[ReadPartition]:
    return [replace(part, service=one.service) for part in table.parts(after, until)]


class PubqueueReader(DataSourceReader):
    """Reads the current rows of a table, at each service.

    It accepts no filters from Spark: Spark refuses a reader that does unless a setting is on, which is off by default.
    Options limit the numbers instead.
    """

    def __init__(self, settings: ReadSettings) -> None:
        self._settings = settings

    def partitions(self) -> Sequence[InputPartition]:
        """Plan the partitions, on the driver, with an upper bound, so that later entries are in no range."""
        found: list[InputPartition] = []
        for one, table in _tables(self._settings):
            base, newest = table.ends()
            after = begin(one.begins, base, newest, table.first)
            until = begin(one.ends, base, newest, table.first)
            found += _parts(one, table, after, min(until, newest))
        return found

    def read(self, partition: InputPartition) -> Iterator[Row]:
        """Read a range."""
        return rows(self._settings, partition)


class PubqueueStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows a table whose numbers increase.

    An offset is the last number that was read: of one service under the name `seq`, of several under their addresses.
    """

    def __init__(self, settings: ReadSettings) -> None:
        self._settings = settings
        self._newest: Offset | None = None
        self._target: Offset | None = None

    def initialOffset(self) -> Offset:  # noqa: N802  Spark's
        """Return where a query without a checkpoint starts."""
        return {
            self._key(one): begin(one.begins, *table.ends(), table.first)
            for one, table in _tables(self._settings)
        }

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return how much a micro-batch reads."""
        most = self._settings.most
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """Return the end of the next micro-batch; it is monotonic, even if a service has lost entries."""
        self._check(start)
        ends: Offset = {}
        self._newest = {}
        for one, table in _tables(self._settings):
            key = self._key(one)
            base, newest = table.ends()
            after = start.get(key, base)  # a service that has joined is read from its beginning
            table.check(after, newest)
            self._newest[key] = newest
            end = newest if self._target is None else min(newest, self._target.get(key, newest))
            if isinstance(limit, ReadMaxRows):
                share = max(1, limit.max_rows // len(self._settings.services.names))
                end = min(end, after + share)
            ends[key] = max(after, end)
        return ends

    def reportLatestOffset(self) -> Offset | None:  # noqa: N802
        """Return the newest offset that was seen, for the progress of the query."""
        return self._newest

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Record the current end, at which the query ends."""
        self._target = {self._key(one): table.ends()[1] for one, table in _tables(self._settings)}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Plan a micro-batch."""
        self._check(start)
        found: list[InputPartition] = []
        for one, table in _tables(self._settings):
            key = self._key(one)
            if key in end:
                after = start[key] if key in start else table.ends()[0]
                found += _parts(one, table, after, end[key])
        return found

    def read(self, partition: InputPartition) -> Iterator[Row]:
        """Read a range, in a task."""
        return rows(self._settings, partition)

    def stop(self) -> None:
        """Log out; no other query uses this process."""
        session.pool().close()

    def _key(self, one: ReadSettings) -> str:
        return one.service if self._settings.has_service else "seq"

    def _check(self, start: Offset) -> None:
        """Raise OptionError for an offset of one service in a query of several, or the other way round."""
        if ("seq" in start) is self._settings.has_service:
            raise OptionError(
                "the checkpoint is of a query with the option"
                f" {'service' if self._settings.has_service else 'services'}: take a new one, or that option again."
            )
