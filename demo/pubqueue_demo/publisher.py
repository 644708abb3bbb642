"""Runs the Spark job as a process, reads its reports, and runs it again if a crash made it fail."""

from __future__ import annotations

import os
import secrets
import sys
from typing import TYPE_CHECKING, Final, Self

from pubqueue_demo import flights, report
from pubqueue_demo.process import INTERRUPTED, Child, ChildError, spawn
from pubqueue_demo.service import NODE, PUBLISHER

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pubqueue_demo.prosody import Prosody

ATTEMPTS: Final = 5

JAVA_OPTIONS: Final = (
    "-XX:-UsePerfData",  # it writes a file in /tmp for each process
    "-XX:TieredStopAtLevel=1",  # the job ends before better code would pay off
    "-XX:+UseSerialGC",
)

# Settings of another Spark, Java or Python do not apply here.
FOREIGN: Final = ("SPARK_", "PYSPARK_", "HADOOP_", "JAVA_", "JDK_", "_JAVA_", "PYTHON")


class Publisher:
    """Writes the late flights into the queue. `total` and `published` are None until known."""

    def __init__(
        self, server: Prosody, folder: Path, java_home: Path, *, note: Callable[[str], None]
    ) -> None:
        self.total: int | None = None
        self.published: list[str] | None = None
        self._server = server
        self._folder = folder
        self._java_home = java_home
        self._note = note
        self._password = secrets.token_hex(16)

    async def prepare(self) -> Self:
        """Create the account."""
        await self._server.account(PUBLISHER, self._password)
        return self

    async def publish(self, items: int | None, *, crashes: Callable[[], int]) -> None:
        """Run the job to its end; raise ChildError if it fails.

        If the component has crashed meanwhile, by the count of `crashes`, the job is run again: its items have the same
        ids, so nothing is published twice.
        """
        for _ in range(ATTEMPTS):
            before = crashes()
            code = await self._run(items)
            if code == 0:
                return
            if crashes() == before:
                break
            self._note("the Spark job has failed because of the crash; running it again")
        raise ChildError("the Spark job", f"ended with status {code}", self._log)

    async def _run(self, items: int | None) -> int:
        scratch = self._folder / "spark"
        scratch.mkdir(exist_ok=True)
        child = await spawn(
            self._command(items, scratch),
            name="the Spark job",
            log=self._log,
            env=self._environment(),
            # files that Spark leaves in its working directory are removed with the folder
            cwd=scratch,
        )
        try:
            await self._listen(child)
            return await child.wait()
        finally:
            await child.stop(INTERRUPTED)

    async def _listen(self, child: Child) -> None:
        async for line in child.lines():
            match report.read(line):
                case report.Selected(rows=rows, table=table):
                    self.total = rows
                    self._note(
                        f"Spark writes work items: {rows:,} of the table's {table:,} flights"
                    )
                case report.Published(ids=ids):
                    self.published = ids
                    self._note("Spark has written all of them, and each is confirmed")
                case _:
                    raise ChildError("the Spark job", "sent a report of a worker", self._log)

    def _command(self, items: int | None, scratch: Path) -> list[str]:
        options = {
            "table": flights.extract(self._folder),
            "scratch": scratch,
            "service": self._server.component,
            "node": NODE,
            "jid": f"{PUBLISHER}@{self._server.domain}",
            "host": self._server.host,
            "port": self._server.c2s_port,
        }
        if items is not None:
            options["items"] = items
        return [
            *(sys.executable, "-Im", "pubqueue_demo.job"),
            *(f"--{name}={value}" for name, value in options.items()),
        ]

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
        return kept | {
            "JAVA_HOME": str(self._java_home),
            "JAVA_TOOL_OPTIONS": " ".join(JAVA_OPTIONS),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "TMPDIR": str(self._folder),
            "PUBQUEUE_PASSWORD": self._password,
        }

    @property
    def _log(self) -> Path:
        return self._folder / "spark.log"
