"""Tasks that run as long as a block of code."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Sequence


@asynccontextmanager
async def tasks(
    work: Sequence[Coroutine[None, None, None]],
) -> AsyncIterator[list[asyncio.Task[None]]]:
    """Run these while the body runs; cancel the unfinished ones at its end."""
    tasks = [asyncio.create_task(one, name="serving") for one in work]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def until(stop: asyncio.Event, work: Sequence[asyncio.Task[None]]) -> None:
    """Return when `stop` is set or a task has ended; raise the exception of a task that has failed."""
    stopping = asyncio.create_task(stop.wait(), name="stop")
    try:
        await asyncio.wait({*work, stopping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
    for task in work:
        if task.done():
            task.result()
