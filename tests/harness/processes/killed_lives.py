"""A service that is started again and again, and kills itself each time at a point; and one that serves to the end."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING

from harness.processes import doomed
from harness.processes.program import PUBQUEUE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

    from harness.processes.program import Program


async def start_doomed(service: Program, point: str, passage: int, first: str = "ready") -> None:
    """Start it so that it kills itself at the passage of that number through the point (`doomed.py`)."""
    service.command = (sys.executable, "-I", doomed.__file__, point, str(passage))
    await service.start(first)


async def killed_itself(service: Program) -> None:
    """Return when it is dead by its own hand; from now on it is started as it is installed. One that lives on is killed."""
    process = service.process
    try:
        assert await service.ended() == -signal.SIGKILL, service.log
    except TimeoutError:
        process.kill()
        raise
    service.command = (PUBQUEUE,)


async def killed_lives(
    service: Program, lives: Iterable[tuple[str, int]], live: Callable[[], Awaitable[object]]
) -> AsyncIterator[None]:
    """Serve once for each point and passage, and `live` meanwhile. Yield after each life, when the service is dead."""
    for point, passage in lives:
        await start_doomed(service, point, passage)
        await live()
        await killed_itself(service)
        yield
