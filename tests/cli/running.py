"""`pubqueue` as a process, and what it says."""

import asyncio
import os
from contextlib import asynccontextmanager

from harness.patience import TIMEOUT
from harness.processes.program import PUBQUEUE
from harness.starts import warm_start


@asynccontextmanager
async def pubqueue(*arguments, command=(PUBQUEUE,), **more):
    """Run the program; kill it if the test has not ended it."""
    process = await warm_start.program(
        *(*command, *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={name: value for name, value in os.environ.items() if "PUBQUEUE" not in name} | more,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def said(*arguments, **more):
    """Return the exit code, what went to stdout and what to stderr."""
    async with asyncio.timeout(TIMEOUT), pubqueue(*arguments, **more) as process:
        out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()
