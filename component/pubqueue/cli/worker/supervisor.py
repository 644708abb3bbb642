"""Several worker processes as one, and workers that restart when the program changes."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import click

from pubqueue.cli.exit_codes import FAILED

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence
    from pathlib import Path


async def supervise(words: Sequence[str], number: int, folder: Path | None) -> int:
    """Run `number` processes of `pubqueue` with these words until SIGTERM, SIGINT or the end of one; return the exit code for all.

    Then all processes get SIGTERM and are awaited. When Python files in `folder` change, they are stopped in the same
    way and restarted, including those that have ended before. A second signal kills them. If the supervisor itself is killed,
    they stop as after SIGTERM (`pubqueue.cli.worker.dev_reload`).
    """
    with _lifeline() as pipe:
        command = (sys.executable, "-m", "pubqueue.cli.worker.dev_reload", str(pipe), *words)
        return await _supervise(command, pipe, number, folder)


@contextmanager
def _lifeline() -> Iterator[int]:
    """Yield the reading end of a pipe that is closed when this process ends, in whatever way."""
    reading, writing = os.pipe()
    try:
        yield reading
    finally:
        os.close(reading)
        os.close(writing)


async def _supervise(command: Sequence[str], pipe: int, number: int, folder: Path | None) -> int:
    asked = asyncio.Event()
    children: list[asyncio.subprocess.Process] = []

    def caught() -> None:
        if asked.is_set():
            _signal(children, signal.SIGKILL)
        asked.set()

    for each in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(each, caught)
    stop = asyncio.create_task(asked.wait())
    changes = None if folder is None else _changes(folder)
    try:
        while True:
            changed = None if changes is None else asyncio.create_task(_next(changes))
            try:
                children += [
                    await asyncio.create_subprocess_exec(*command, pass_fds=(pipe,))
                    for _ in range(number)
                ]
                await _over(children, stop, changed)
            finally:
                _signal(children, signal.SIGTERM)
                codes = [await child.wait() for child in children]
                children.clear()
            if changed is None or asked.is_set():
                return _code(codes)
            click.echo(f"pubqueue: {await changed}, restarting", err=True)
    finally:
        stop.cancel()


async def _over(
    children: Sequence[asyncio.subprocess.Process],
    stop: asyncio.Task[bool],
    changed: asyncio.Task[str] | None,
) -> None:
    """Return at a request to stop, when files have changed, or, if files are not watched, when a child has ended."""
    if changed is not None:
        await asyncio.wait({stop, changed}, return_when=asyncio.FIRST_COMPLETED)
        if not changed.done():
            changed.cancel()
        return
    ends = {asyncio.create_task(child.wait()) for child in children}
    await asyncio.wait({stop, *ends}, return_when=asyncio.FIRST_COMPLETED)
    for end in ends:
        end.cancel()


def _signal(children: Sequence[asyncio.subprocess.Process], number: signal.Signals) -> None:
    for child in children:
        if child.returncode is None:
            with suppress(ProcessLookupError):
                child.send_signal(number)


def _code(codes: Sequence[int]) -> int:
    """Return the worst of the exit codes; a process that a signal has ended has failed."""
    return max(FAILED if code < 0 else code for code in codes)


async def _changes(folder: Path) -> AsyncIterator[str]:
    """Yield a sentence each time that Python files change."""
    from watchfiles import PythonFilter, awatch  # noqa: PLC0415  # an extra

    async for found in awatch(folder, watch_filter=PythonFilter()):
        names = sorted({path.rpartition("/")[2] for _, path in found})
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        yield f"{names[0]}{more} changed"


async def _next(changes: AsyncIterator[str]) -> str:
    return await anext(changes)
