"""Starts a program that cannot outlive this process, reads its output, and stops it.

Every child runs in its own process group: Ctrl-C in the terminal reaches only this process, which stops the children in
order. `setpriv --pdeathsig` asks the kernel to kill the child when the thread that started it dies, so that even `kill
-9` of the parent leaves no process behind.
"""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from pathlib import Path

TAIL_LINES = 15

# The Spark job reports its ten thousand items in one line of some hundred kilobytes.
MAX_LINE_LENGTH = 2**26

# Seconds to stop after an interrupt; unfinished work is not waited for.
INTERRUPTED = 2.0

# How long the kernel may take to end a killed group.
DYING = 2.0


class ChildError(RuntimeError):
    """A child process did not behave as expected."""

    def __init__(self, name: str, what: str, log: Path) -> None:
        self.name, self.what = name, what
        last = tail(log)
        super().__init__(f"{name} {what}" + (f"; its last lines:\n{last}" if last else ""))


@dataclass(frozen=True, slots=True)
class Child:
    """A running program; its stderr goes to the file `log`, `lines` reads its stdout."""

    name: str
    process: asyncio.subprocess.Process
    log: Path

    @property
    def pid(self) -> int:
        """Its process id, which is also its group's id."""
        return self.process.pid

    @property
    def running(self) -> bool:
        """Whether it is still running."""
        return self.process.returncode is None

    async def lines(self) -> AsyncIterator[str]:
        """Yield the lines of stdout until the program closes it."""
        assert self.process.stdout is not None
        async for raw in self.process.stdout:
            yield raw.decode(errors="replace").rstrip("\n")

    async def wait_line(self, start: str, *, timeout: float) -> str:  # noqa: ASYNC109 - the error names what was awaited
        """Return the first line of stdout with this prefix; raise ChildError if none comes."""
        try:
            async with asyncio.timeout(timeout):
                async for line in self.lines():
                    if line.startswith(start):
                        return line
                code = await self.process.wait()
        except TimeoutError:
            raise ChildError(self.name, f"was silent for {timeout:g} s", self.log) from None
        raise ChildError(self.name, f"ended with status {code}", self.log)

    async def wait(self) -> int:
        """Wait for its end; return the exit status, or minus the signal."""
        return await self.process.wait()

    def send(self, number: signal.Signals) -> None:
        """Send it a signal; harmless if it has ended."""
        if self.running:
            with suppress(ProcessLookupError):  # its own method may take the exit code from asyncio
                os.kill(self.process.pid, number)

    async def kill(self) -> None:
        """Kill it and its group at once (SIGKILL); harmless if it has ended."""
        self._kill_group()
        await self.process.wait()

    async def stop(self, grace: float = 10) -> int:
        """Ask it to end (SIGTERM); kill it if it has not ended after `grace` seconds.

        No process of its group is left, even if this is cancelled meanwhile.
        """
        try:
            self.send(signal.SIGTERM)
            with suppress(TimeoutError):
                await asyncio.wait_for(self.process.wait(), grace)
        finally:
            self._kill_group()
        code = await self.process.wait()
        await self._group_gone()
        return code

    def _kill_group(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    async def _group_gone(self) -> None:
        """Wait for its own children, such as Spark's Java, because their files are removed next."""
        with suppress(ProcessLookupError, TimeoutError):
            async with asyncio.timeout(DYING):
                while True:
                    os.killpg(self.process.pid, 0)
                    await asyncio.sleep(0.01)


async def spawn(
    argv: Sequence[str | Path],
    *,
    name: str,
    log: Path,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    read: bool = True,
) -> Child:
    """Start a program that dies with this process; `read=False` sends its stdout to the log too."""
    with log.open("ab") as sink:
        process = await asyncio.create_subprocess_exec(
            # setpriv sets the flag on itself and then becomes the program, with the same process id
            *("setpriv", "--pdeathsig", "KILL", "--"),
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE if read else sink,
            stderr=sink,
            env=None if env is None else dict(env),
            cwd=cwd,
            process_group=0,
            limit=MAX_LINE_LENGTH,
        )
    return Child(name, process, log)


def read_log(log: Path) -> str:
    """Return the content of the file; empty if there is none yet."""
    return log.read_text(errors="replace") if log.exists() else ""


def tail(log: Path) -> str:
    """Return the last lines of a log file; empty if there is none."""
    return "\n".join(read_log(log).splitlines()[-TAIL_LINES:])
