"""A Spark driver as a process of its own, so that it can be killed like one.

It takes one job after the other over a Unix socket: a function that both sides can import, and its
arguments. What the function returns, or the text of what it raised, comes back. Calls block: what must
go on meanwhile is in the background.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from multiprocessing.connection import Client, Connection
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, Final, ParamSpec, Self, TypeVar

from harness.patience import TIMEOUT

from pubqueue_demo.process import Child, ChildError, spawn

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    from harness.background import Background
    from pyspark.sql import SparkSession

P = ParamSpec("P")
T = TypeVar("T")

WORKING: Final = 300.0
ENDING: Final = 30.0
SERVE: Final = Path(__file__).with_name("serve.py")


class JobFailedError(Exception):
    """The job raised; the text is what the driver printed of it."""


class Driver:
    """A driver with its session, from `with` until it is killed or the block ends."""

    def __init__(
        self,
        background: Background,
        folder: Path,
        env: Mapping[str, str],
        conf: Mapping[str, str],
        *,
        python: Path,
    ) -> None:
        self.folder = folder
        self._background = background
        self._env, self._conf, self._python = env, conf, python
        flags = [f"{name}={value}" for name, value in conf.items()]
        self._command = [python, SERVE, self._address, *flags]

    @property
    def _address(self) -> str:
        return str(self.folder / "line")

    @property
    def log(self) -> Path:
        """Where the driver logs to."""
        return self.folder / "driver.log"

    def __enter__(self) -> Self:
        self._child = self._background.run(self._start(), TIMEOUT + 10)
        self._line: Connection = Client(self._address, "AF_UNIX")  # type: ignore[assignment]
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        """Let it end by itself, for it has no more jobs; then end what is left of it."""
        self._line.close()
        self._background.run(self._end())

    def run(
        self, job: Callable[Concatenate[SparkSession, P], T], *args: P.args, **named: P.kwargs
    ) -> T:
        """Run a job; raises JobFailedError, or ChildError when the driver dies over it."""
        self.send(job, *args, **named)
        return self.result()

    def send(
        self, job: Callable[Concatenate[SparkSession, P], T], *args: P.args, **named: P.kwargs
    ) -> None:
        """Start a job, whose `result` is asked for later."""
        self._line.send((job, args, named))

    def result(self, within: float = WORKING) -> T:
        """Wait for what the job returns."""
        try:
            if not self._line.poll(within):
                raise ChildError("driver", f"has worked for {within:g} s", self.log)
            worked, result = self._line.recv()
        except (EOFError, OSError) as error:
            raise ChildError("driver", "is gone", self.log) from error
        if not worked:
            raise JobFailedError(result)
        return result

    def failure(self) -> str | None:
        """Wait for the end of a job; return what it raised."""
        try:
            self.result()
        except JobFailedError as error:
            return str(error)
        return None

    def kill(self) -> None:
        """Kill Python and Java of the driver, at once."""
        self._background.run(self._child.kill())

    def again(self) -> Driver:
        """Return a new driver in the place of this one, which was killed."""
        Path(self._address).unlink(missing_ok=True)
        return Driver(self._background, self.folder, self._env, self._conf, python=self._python)

    async def _end(self) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._child.wait(), ENDING)
        await self._child.stop()

    async def _start(self) -> Child:
        child = await spawn(
            self._command, name="driver", log=self.log, env=self._env, cwd=self.folder
        )
        try:
            await child.wait_line("ready", timeout=TIMEOUT)
        except BaseException:
            await child.kill()
            raise
        return child
