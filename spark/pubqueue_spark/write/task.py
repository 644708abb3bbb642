"""What each task runs: it publishes the rows of one partition over this process's stream."""

from __future__ import annotations

import secrets
import time
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from pubqueue_spark import content_types, logs, session
from pubqueue_spark.client.ask import ask
from pubqueue_spark.client.window import Limits, Task
from pubqueue_spark.errors import OptionError, PubqueueSparkError, RowError, ServiceError
from pubqueue_spark.write.bundles import Bundles
from pubqueue_spark.write.forms import form
from pubqueue_spark.write.row_results import RowResults
from pubqueue_spark.write.rows import Rows, Unfit
from pubqueue_xeps.errors import LoginFailed
from pubqueue_xeps.wire.requests import transactions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyspark.sql import Row

    from pubqueue_spark.client.window import WindowCounts
    from pubqueue_spark.write.options import Settings
    from pubqueue_spark.write.rows import Item
    from pubqueue_spark.write.schema import Columns
    from pubqueue_xeps.wire.requests.transactions import Mark

CHUNK: Final = 200
"""Rows that are passed to the event loop at once, because passing each row to another thread would cost more."""
STREAM: Final = ("sql.streaming.queryId", "streaming.sql.batchId")
"""Local properties of a streaming task: query and batch."""


@dataclass(frozen=True, slots=True)
class Job:
    """What all tasks of a write have in common. Pickled into them, so it holds only plain values."""

    settings: Settings
    columns: Columns
    transactional: bool
    """Whether the service keeps transactions; without them, items appear one by one."""
    progress: bool = False
    """Whether the service reports how far a commit is."""


@dataclass(frozen=True, slots=True)
class Written(WriterCommitMessage):
    """The result of one attempt of a task; the service has confirmed all of its items."""

    mark: Mark
    partition: int
    attempt: int
    items: int
    bytes: int
    replayed: int
    left_out: int
    dead_lettered: int
    retries: int
    reconnects: int
    seconds: float


def write(job: Job, mark: Mark, source: Iterator[Row]) -> Written:
    """Publish the rows of the current task; return when all of them are confirmed."""
    task = TaskContext.get()
    assert task is not None, "write() runs in a task of Spark"
    # not a number of Spark's: each driver restarts its own, and a dead one may have left staged
    # items
    part, attempt = task.partitionId(), secrets.randbits(53)
    logs.make_audible()
    settings = job.settings
    start = time.monotonic()
    has_types = settings.content_type is not None or job.columns.content_type is not None
    rows = Rows(
        columns=job.columns,
        form=form(job.columns.payload_type, settings.payload_format),
        node=settings.node,
        ids=mark.ids,
        partition=part,
        mark=mark.beside(part, attempt, settings.visibility) if job.transactional else "",
        content_type=settings.content_type,
        typed=content_types.writer() if has_types else None,
    )
    # XEP-0060 7.1 has one item in a publish; a service with transactions takes more
    several = job.transactional and settings.visibility == "commit"
    bundles = Bundles(rows, settings.items_per_request if several else 1)
    results = RowResults(rows, bundles, settings)
    application = task.getLocalProperty("spark.app.id") or "application"
    try:
        counts = publish(rows, bundles, results, source, settings, application)
    except RowError:
        if job.transactional:
            _drop(settings, mark, transactions.Part(part, attempt, 0), application)
        raise
    return Written(
        mark,
        part,
        attempt,
        results.items,
        results.bytes,
        results.replayed,
        results.left_out,
        results.dead_lettered,
        counts.retries,
        counts.reconnects,
        time.monotonic() - start,
    )


def _drop(settings: Settings, mark: Mark, own: transactions.Part, application: str) -> None:
    """Drop the items that this attempt has staged; the driver does not know failed attempts."""
    with suppress(PubqueueSparkError):  # the items expire; the error of the task matters more
        question = transactions.abort(mark, [own])
        ask(settings, question, retries=1, who=f"partition {own.number}", application=application)


def publish(  # noqa: PLR0917
    rows: Rows,
    bundles: Bundles,
    results: RowResults,
    source: Iterable[Row],
    settings: Settings,
    application: str,
) -> WindowCounts:
    """Publish all rows of a partition over this process's stream.

    Raises RowError for a row that cannot become an item, and ServiceError if the service refuses a request or stays
    unreachable. Rows before the failing one may have been published.
    """
    line = session.pool().session(session.account(settings), session.resource(application))
    who = Task(settings.service, f"partition {rows.partition}")
    limits = Limits(
        settings.max_in_flight, settings.progress_timeout, settings.retries, settings.backoff
    )
    try:
        number, window = session.run(line.open(who, limits, results))
    except LoginFailed as error:
        raise ServiceError(f"partition {rows.partition} found no way in: {error}") from None
    try:
        numbered = enumerate(source)
        pace = Pace(settings.max_rate)
        while chunk := list(islice(numbered, pace.chunk)):
            items = _items(rows, results, chunk)
            session.run(window.put(list(bundles.gather(items))))
            if results.replayed:  # and so are the rest; Spark requires that they are read
                results.replayed += sum(1 for _ in numbered)
            pace.wait(len(chunk))
        return session.run(window.drain())
    finally:
        session.run(line.close(number))


def _items(rows: Rows, results: RowResults, chunk: Iterable[tuple[int, Row]]) -> Iterator[Item]:
    for number, row in chunk:
        found: Item | None
        try:
            found = rows.item(number, row)
        except Unfit as unfit:
            found = results.unfit(number, row[rows.columns.payload], str(unfit))
        if found is not None:
            yield found


class Pace:
    """Limits a task to this many rows per second; None for no limit."""

    def __init__(
        self,
        rate: float | None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._rate = rate
        self._clock = clock
        self._sleep = sleep
        self._due = clock()
        self.chunk = CHUNK if rate is None else min(CHUNK, max(1, int(rate / 10)))
        """How many rows to send at once: a tenth of a second's."""

    def wait(self, rows: int) -> None:
        """Wait as long as this many rows take; lost time does not cause a burst."""
        if self._rate is None:
            return
        now = self._clock()
        self._due = max(self._due, now) + rows / self._rate
        self._sleep(self._due - now)


def stream_mark(settings: Settings) -> tuple[str, int]:
    """Return query and batch of the current streaming task.

    Spark passes neither to a stream's writer, but its tasks have both. The query's id is kept in the checkpoint, unlike
    the id of a run.
    """
    task = TaskContext.get()
    assert task is not None, "write() runs in a task of Spark"
    query, batch = (task.getLocalProperty(name) for name in STREAM)
    if query is None or batch is None:
        raise OptionError(
            "the task does not name its query and batch; only micro-batches can"
            " be written (Trigger.Continuous and real-time mode cannot)."
        )
    return settings.txn_app or query, int(batch)
