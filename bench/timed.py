"""A Spark format that measures its own time, in the tasks and in the driver.

The time of a task has three exclusive parts: it waits for Spark's next row; or else any thread of this process works;
or else it waits for the service. Work of the client while it waits for Spark counts as Spark's.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as f
from pyspark.sql.datasource import DataSourceWriter

from pubqueue_spark.source import PubqueueDataSource

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import Row, SparkSession
    from pyspark.sql.datasource import WriterCommitMessage
    from pyspark.sql.types import StructType


class Stopwatch:
    """Splits the time since it was made."""

    def __init__(self) -> None:
        self._spark = self._client = 0.0
        self._begun, self._worked = time.perf_counter(), time.process_time()

    def rows(self, source: Iterator[Row]) -> Iterator[Row]:
        """Yield the rows; between two of them the clock is the client's."""
        while True:
            self._lap()
            asked = time.perf_counter()
            row = next(source, None)
            self._spark += time.perf_counter() - asked
            self._worked = time.process_time()
            if row is None:
                return
            yield row

    def end(self) -> dict[str, float]:
        """Return the seconds of each, and all of them."""
        self._lap()
        wall = time.perf_counter() - self._begun
        return {"wall": wall, "spark": self._spark, "client": self._client}

    def _lap(self) -> None:
        self._client += time.process_time() - self._worked


@dataclass(frozen=True)
class TimedWriter(DataSourceWriter):
    """Writes like the wrapped writer, and appends its times to a file."""

    writer: DataSourceWriter
    notes: str

    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        """See DataSourceWriter."""
        watch = Stopwatch()
        message = self.writer.write(watch.rows(iterator))
        self._note(watch.end())
        return message

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """See DataSourceWriter."""
        begun = time.perf_counter()
        self.writer.commit(messages)
        self._note({"commit": time.perf_counter() - begun})

    def _note(self, seconds: Mapping[str, float]) -> None:
        with Path(self.notes).open("a") as file:
            file.write(f"{json.dumps(seconds)}\n")


class TimedSource(PubqueueDataSource):
    """The format "timed": the option `notes` names the file."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__({name: value for name, value in options.items() if name != "notes"})
        self._notes = options["notes"]

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "timed"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001
        """Wrap the writer."""
        return TimedWriter(super().writer(schema, overwrite), self._notes)


def write(
    spark: SparkSession, options: Mapping[str, str], *, rows: int, tasks: int, payload: int
) -> float:
    """Write this many rows for each task; return the seconds of the job. It runs in the driver."""
    spark.dataSource.register(TimedSource)
    filler = "x" * (payload - len("<job xmlns='urn:x'></job>"))
    data = spark.range(0, rows * tasks, 1, tasks).select(
        f.lit(f"<job xmlns='urn:x'>{filler}</job>").alias("payload")
    )
    begun = time.perf_counter()
    data.write.format("timed").mode("append").options(**options).save()
    return time.perf_counter() - begun
