"""The format with a fault in it: `option("fault", ...)` names what dies, or hangs, and when.

A fault befalls partition 0, or the commit, once for each folder of notes: whoever makes the note is hit.
This runs in tasks and in the driver's planner, and is imported by name there.
"""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.patience import wait_until
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter

from pubqueue_spark.source import PubqueueDataSource

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import Row
    from pyspark.sql.datasource import WriterCommitMessage
    from pyspark.sql.types import StructType

OWN: Final = ("fault", "notes")
TASK: Final = ("worker", "executor", "stall")
TIMEOUT: Final = 450.0
"""Seconds for the test to do meanwhile what it wants: to start another driver, and to have a stream worked off by it."""


@dataclass(frozen=True)
class Fault:
    """What is to happen; picklable, for it goes where the writer goes."""

    name: str
    notes: str

    def task_wrote(self) -> None:
        """Befall a task all of whose rows the service has confirmed."""
        task = TaskContext.get()
        assert task is not None
        self._note(f"{task.partitionId()} {task.attemptNumber()}")
        if self.name not in TASK or task.partitionId() or not self._first():
            return
        if self.name == "worker":
            os.kill(os.getpid(), signal.SIGKILL)
        elif self.name == "executor":
            os.kill(_parent(os.getppid()), signal.SIGKILL)
        signal.pause()  # until Spark gives this attempt up, or the executor's end ends it

    def commit(self, when: str) -> None:
        """Befall the driver at its commit."""
        if self.name == f"{when} commit" and self._first():
            java = _parent(os.getppid())
            os.killpg(os.getpgid(java), signal.SIGKILL)  # and Python, which started it
        elif self.name == f"planner {when} commit" and self._first():
            os.kill(os.getpid(), signal.SIGKILL)
        elif self.name == f"hang {when} commit" and self._first():
            self._wait_for(Path(self.notes) / "go on")

    def _wait_for(self, note: Path) -> None:
        wait_until(note.exists, within=TIMEOUT, why=f"nobody has made {note}")

    def _first(self) -> bool:
        try:
            (Path(self.notes) / self.name).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def _note(self, line: str) -> None:
        with (Path(self.notes) / "notes").open("a") as file:
            file.write(f"{line}\n")


@dataclass(frozen=True)
class FaultyWriter(DataSourceWriter):
    """A writer of a batch, and its fault."""

    writer: DataSourceWriter
    fault: Fault

    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        """See DataSourceWriter."""
        message = self.writer.write(iterator)
        self.fault.task_wrote()
        return message

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """See DataSourceWriter."""
        self.fault.commit("before")
        self.writer.commit(messages)
        self.fault.commit("after")

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """See DataSourceWriter."""
        self.writer.abort(messages)


@dataclass(frozen=True)
class FaultyStreamWriter(DataSourceStreamWriter):
    """A writer of micro-batches, and its fault."""

    writer: DataSourceStreamWriter
    fault: Fault

    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        """See DataSourceStreamWriter."""
        message = self.writer.write(iterator)
        self.fault.task_wrote()
        return message

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """See DataSourceStreamWriter."""
        self.fault.commit("before")
        self.writer.commit(messages, batchId)
        self.fault.commit("after")

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """See DataSourceStreamWriter."""
        self.writer.abort(messages, batchId)


class FaultySource(PubqueueDataSource):
    """The format "faulty": options `fault` and `notes` beside the usual ones."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__({name: value for name, value in options.items() if name not in OWN})
        self._fault = Fault(options["fault"], options["notes"])

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "faulty"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001
        """Wrap the writer."""
        return FaultyWriter(super().writer(schema, overwrite), self._fault)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: FBT001, N802
        """Wrap the writer."""
        return FaultyStreamWriter(super().streamWriter(schema, overwrite), self._fault)


def _parent(pid: int) -> int:
    """Return the process id of a process's parent."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("PPid:")[1].split()[0])
