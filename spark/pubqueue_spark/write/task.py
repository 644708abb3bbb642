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
from pubqueue_spark.write.row_results import BadRows, RowResults
from pubqueue_spark.write.rows import Rows, Unfit
from pubqueue_xeps.errors import LoginFailed
from pubqueue_xeps.wire.requests import transactions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import Row

    from pubqueue_spark.client.window import Window, WindowCounts
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
class Written:
    """The result of one attempt of a task at one service, which has confirmed all of its items."""

    service: str
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


@dataclass(frozen=True, slots=True)
class TaskWritten(WriterCommitMessage):
    """The results of one attempt of a task, one for each service that has got any row."""

    written: tuple[Written, ...]


@dataclass(frozen=True, slots=True)
class Destination:
    """Where the rows of a task go: one service, and what it has taken."""

    service: str
    bundles: Bundles
    results: RowResults


def write(job: Job, mark: Mark, source: Iterator[Row]) -> TaskWritten:
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
    bad = BadRows()
    destinations = []
    for service in settings.services.settled:
        bundles = Bundles(rows, settings.items_per_request if several else 1)
        results = RowResults(rows, bundles, settings.at(service), bad)
        destinations.append(Destination(service, bundles, results))
    application = task.getLocalProperty("spark.app.id") or "application"
    try:
        counts = publish(rows, destinations, source, settings, application)
    except RowError:
        if job.transactional:
            for it in destinations:
                own = transactions.Part(part, attempt, 0)
                _drop(settings.at(it.service), mark, own, application)
        raise
    seconds = time.monotonic() - start
    written = [
        Written(
            it.service,
            mark,
            part,
            attempt,
            it.results.items,
            it.results.bytes,
            it.results.replayed,
            it.results.left_out,
            it.results.dead_lettered,
            counted.retries,
            counted.reconnects,
            seconds,
        )
        for it, counted in zip(destinations, counts, strict=True)
    ]
    return TaskWritten(tuple(written))


def _drop(settings: Settings, mark: Mark, own: transactions.Part, application: str) -> None:
    """Drop the items that this attempt has staged; the driver does not know failed attempts."""
    with suppress(PubqueueSparkError):  # the items expire; the error of the task matters more
        question = transactions.abort(mark, [own])
        ask(settings, question, retries=1, who=f"partition {own.number}", application=application)


def publish(
    rows: Rows,
    destinations: Sequence[Destination],
    source: Iterable[Row],
    settings: Settings,
    application: str,
) -> list[WindowCounts]:
    """Publish all rows of a partition over this process's stream, each to its service; return the counts of each.

    Raises RowError for a row that cannot become an item, and ServiceError if a service refuses a request or stays
    unreachable. Rows before the failing one may have been published.
    """
    who = f"partition {rows.partition}"
    line = session.pool().session(session.account(settings), session.resource(application))
    limits = Limits(
        settings.max_in_flight, settings.progress_timeout, settings.retries, settings.backoff
    )
    windows: dict[str, tuple[int, Window]] = {}
    try:
        for it in destinations:
            opening = line.open(Task(it.service, who), limits, it.results)
            windows[it.service] = session.run(opening)
        _put_all(rows, destinations, windows, source, settings)
        return [session.run(window.drain()) for _, window in windows.values()]
    except LoginFailed as error:
        raise ServiceError(f"{who} found no way in: {error}") from None
    finally:
        for number, _ in windows.values():
            session.run(line.close(number))


def _put_all(
    rows: Rows,
    destinations: Sequence[Destination],
    windows: Mapping[str, tuple[int, Window]],
    source: Iterable[Row],
    settings: Settings,
) -> None:
    """Send all rows, as far as the windows have room; those of a service that has the batch already are only counted."""
    numbered = enumerate(source)
    pace = Pace(settings.max_rate)
    first = destinations[0].results
    while chunk := list(islice(numbered, pace.chunk)):
        items: dict[str, list[Item]] = {it.service: [] for it in destinations}
        for item in _items(rows, first, chunk):
            items[settings.services.place(item.key)].append(item)
        for it in destinations:
            if it.results.replayed:
                it.results.skip(len(items[it.service]))
            else:
                _, window = windows[it.service]
                session.run(window.put(list(it.bundles.gather(items[it.service]))))
        if all(it.results.replayed for it in destinations):
            first.skip(sum(1 for _ in numbered))  # Spark requires that the rest is read
        pace.wait(len(chunk))


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
