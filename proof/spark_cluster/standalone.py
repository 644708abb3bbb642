"""A standalone Spark cluster on this machine: a master and two workers, each a JVM of its own.

The workers have an address each, 127.0.0.1 and 127.0.0.2, because Spark never runs the second attempt of
a task on the host of the first. Each has room for two executors of two drivers. They are started with `bin/spark-class`, which the wheel of PySpark has;
`sbin/start-worker.sh` it has not.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import pyspark
from harness.patience import TIMEOUT, until

from pubqueue_demo.process import Child, ChildError, read_log, spawn

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

SPARK_HOME: Final = Path(pyspark.__file__).parent
HOSTS: Final = ("127.0.0.1", "127.0.0.2")
JVM: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
POLL: Final = 0.05


class Standalone:
    """The cluster; an async context manager that leaves no process and no file behind."""

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        self._folder = folder
        self._env = env
        self._children: list[Child] = []

    async def __aenter__(self) -> Self:
        try:
            master = await self._start(HOSTS[0], "master.Master", "--webui-port", "0")
            found = await logged(master, r"Starting Spark master at (spark://\S+)")
            self.master = found[1]
            for host in HOSTS:
                worker = await self._start(
                    *(host, "worker.Worker", "--webui-port", "0"),
                    *("--cores", "4", "--memory", "2g"),
                    *("--work-dir", str(self._folder / f"work-{host}"), self.master),
                )
                await logged(worker, "Successfully registered with master")
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        await self._stop()

    async def _start(self, host: str, program: str, *arguments: str) -> Child:
        child = await spawn(
            [
                SPARK_HOME / "bin" / "spark-class",
                f"org.apache.spark.deploy.{program}",
                *("--host", host, "--port", "0"),
                *arguments,
            ],
            name=f"{program} on {host}",
            log=self._folder / f"{program}-{host}.log",
            env={
                **self._env,
                "SPARK_LOCAL_IP": host,
                "SPARK_LOCAL_DIRS": str(self._folder),
                "SPARK_DAEMON_MEMORY": "256m",
                "SPARK_DAEMON_JAVA_OPTS": f"{JVM} -Djava.io.tmpdir={self._folder}",
            },
            read=False,
        )
        self._children.append(child)
        return child

    async def _stop(self) -> None:
        for child in reversed(self._children):
            await child.stop()


async def logged(child: Child, pattern: str) -> re.Match[str]:
    """Wait until the program has logged a line like this."""

    def found() -> re.Match[str] | None:
        is_running = child.running
        if match := re.search(pattern, read_log(child.log)):
            return match
        if not is_running:
            raise ChildError(child.name, "did not start", child.log)
        return None

    try:
        return await until(found, every=POLL, within=TIMEOUT)
    except TimeoutError:
        said = f"has not said {pattern!r} for {TIMEOUT:g} s"
        raise ChildError(child.name, said, child.log) from None
