"""The two writers of Spark's interface, one for a batch and one for a stream.

Spark pickles them. Their methods import other modules by name: a class that was pickled by value has new globals for
each task, so no stream would be kept.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter

from pubqueue_xeps.wire.requests.transactions import Mark

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import Row
    from pyspark.sql.datasource import WriterCommitMessage

    from pubqueue_spark.write.task import Job, TaskWritten


@dataclass(frozen=True)
class PubqueueWriter(DataSourceWriter):
    """Publishes a DataFrame. Spark pickles it into the tasks, and commits with the same object."""

    job: Job
    mark: Mark

    def write(self, iterator: Iterator[Row]) -> TaskWritten:
        """Stage the rows of a partition."""
        from pubqueue_spark.write import task  # noqa: PLC0415

        return task.write(self.job, self.mark, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Make the staged items visible."""
        from pubqueue_spark.write import finish  # noqa: PLC0415

        finish.commit(self.job, self.mark, finish.finished(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Drop the staged items."""
        from pubqueue_spark.write import finish  # noqa: PLC0415

        finish.abort(self.job, self.mark, finish.finished(messages))


@dataclass(frozen=True)
class PubqueueStreamWriter(DataSourceStreamWriter):
    """Publishes the micro-batches of a query. Spark makes a new one for each commit."""

    job: Job

    def write(self, iterator: Iterator[Row]) -> TaskWritten:
        """Stage the rows of a partition of a batch."""
        from pubqueue_spark.write import task  # noqa: PLC0415

        return task.write(self.job, Mark(*task.stream_mark(self.job.settings)), iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  Spark's
        """Make the batch visible; its tasks name its query."""
        from pubqueue_spark.write import finish  # noqa: PLC0415

        if done := finish.finished(messages):
            finish.commit(self.job, replace(done[0].mark, version=batchId), done)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Drop the items of the tasks that reported a result.

        Other items are dropped with the next commit of the same batch, or when they expire.
        """
        from pubqueue_spark.write import finish  # noqa: PLC0415

        if done := finish.finished(messages):
            finish.abort(self.job, replace(done[0].mark, version=batchId), done)
