"""A Spark Connect server, from the wheel of PySpark, as a program of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from proof.spark_cluster.standalone import SPARK_HOME, logged
from pubqueue_demo.process import Child, spawn

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import TracebackType

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"


class ConnectServer:
    """The server, which runs its jobs itself (local[2]); an async context manager."""

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        self._folder = folder
        self._env = env

    async def __aenter__(self) -> Self:
        self._child = await self._start()
        try:
            found = await logged(self._child, r"Spark Connect server started at:? ([\d.]+:\d+)")
        except BaseException:
            await self._child.stop()
            raise
        self.url = f"sc://{found[1]}"
        return self

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        await self._child.stop()

    async def _start(self) -> Child:
        conf = {
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": "0",
            "spark.local.dir": str(self._folder),
            "spark.sql.warehouse.dir": str(self._folder / "warehouse"),
            "spark.ui.enabled": "false",
            "spark.python.unix.domain.socket.enabled": "true",
            "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={self._folder}",
        }
        return await spawn(
            [
                SPARK_HOME / "bin" / "spark-submit",
                *("--class", SERVER, "--master", "local[2,3]", "--driver-memory", "512m"),
                *(word for name, value in conf.items() for word in ("--conf", f"{name}={value}")),
            ],
            name="the Spark Connect server",
            log=self._folder / "connect.log",
            env=self._env,
            cwd=self._folder,
            read=False,
        )
