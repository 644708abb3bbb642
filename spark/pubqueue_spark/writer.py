"""The batch writer: what runs in each task, and what the driver does with the outcome."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceWriter, WriterCommitMessage

from pubqueue_spark.errors import ServiceError
from pubqueue_spark.rows import Rows
from pubqueue_spark.window import Limits

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import Row

    from pubqueue_spark.options import Settings
    from pubqueue_spark.schema import Columns
    from pubqueue_spark.window import Tally

CHUNK: Final = 200
"""Rows handed to the event loop at once: a hop between threads for each row would cost more."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Written(WriterCommitMessage):
    """What one task has published; every row of it was confirmed by the service."""

    partition: int
    task_attempt: int
    rows: int
    bytes: int
    retries: int
    reconnects: int
    seconds: float


@dataclass(frozen=True)
class PubqueueWriter(DataSourceWriter):
    """Publishes the rows of each partition. Pickled into the tasks, so it holds plain values only."""

    settings: Settings
    columns: Columns
    job_id: str

    def write(self, iterator: Iterator[Row]) -> Written:
        """Publish the rows; returns when the service has confirmed each of them."""
        task = TaskContext.get()
        assert task is not None, "write() runs in a task of Spark"
        start = time.monotonic()
        rows = Rows(self.columns, self.settings.node, self.job_id, task.partitionId())
        application = task.getLocalProperty("spark.app.id") or "application"
        tally = publish(rows, iterator, self.settings, application)
        return Written(
            task.partitionId(),
            task.taskAttemptId(),
            tally.rows,
            tally.bytes,
            tally.retries,
            tally.reconnects,
            time.monotonic() - start,
        )

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Say what was written: the items are in the queue since their tasks confirmed them."""
        done = [message for message in messages if isinstance(message, Written)]
        log.info(
            "job %s: %d rows and %d bytes published to %s, %d publishes tried again,"
            " %d connections made anew, longest task %.1f s",
            self.job_id,
            sum(message.rows for message in done),
            sum(message.bytes for message in done),
            self.settings.service,
            sum(message.retries for message in done),
            sum(message.reconnects for message in done),
            max((message.seconds for message in done), default=0.0),
        )

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Say what stays behind: items that were published before the job failed are in the queue."""
        done = sum(message.rows for message in messages if isinstance(message, Written))
        log.warning(
            "job %s failed. At least the %d rows of its finished tasks are in the queue and stay"
            " there; run it again with jobId=%s and the same input, and they are not added twice"
            " while they wait.",
            self.job_id,
            done,
            self.job_id,
        )


def publish(rows: Rows, source: Iterator[Row], settings: Settings, application: str) -> Tally:
    """Publish all rows of a partition over this process's stream.

    Raises RowError for a row that cannot become an item, and ServiceError when the service refuses
    the work or stays away. Rows before the failing one may have been published.
    """
    from pubqueue_spark import session  # noqa: PLC0415  slixmpp is for the tasks, not for the planner

    limits = Limits(
        settings.max_in_flight, settings.progress_timeout, settings.retries, settings.backoff
    )
    line = session.pool().session(session.account(settings), session.resource(application))
    try:
        number, window = session.run(line.open(settings.service, rows.partition, limits))
    except ConnectionError as error:
        raise ServiceError(f"partition {rows.partition} found no way in: {error}") from None
    try:
        numbered = enumerate(source)
        while chunk := [rows.publish(n, row) for n, row in islice(numbered, CHUNK)]:
            session.run(window.put(chunk))
        return session.run(window.drain())
    finally:
        session.run(line.close(number))
