"""What ends a run of requests or calls, and what is printed of it."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Awaitable, Callable

    from harness.processes.program import Program


class FaultError(AssertionError):
    """A request has met a fault of the service."""


def faults(program: Program) -> list[str]:
    """Return the lines of the log about faults."""
    lines = program.log.splitlines()
    return [line for line in lines if "level=error" in line or "Traceback" in line]


def print_outcome(run: Callable[[Path], Awaitable[Counter[str]]], what: str, seed: int) -> None:
    """Run in an empty folder, and print how often each answer came; exit with 1 and the reason if there was a fault."""
    begun = time.monotonic()

    async def in_folder() -> Counter[str]:
        with tempfile.TemporaryDirectory(prefix="pubqueue-fuzz-") as folder:
            return await run(Path(folder))

    try:
        answers = asyncio.run(in_folder())
    except FaultError as error:
        click.echo(f"seed {seed}: {error}")
        sys.exit(1)
    click.echo(f"{what} without a fault, in {time.monotonic() - begun:.0f} s")
    for answer, times in sorted(answers.items()):
        click.echo(f"{times:>10,} {answer}")
