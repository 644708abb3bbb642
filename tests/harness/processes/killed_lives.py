"""A service that is started again and again, and kills itself each time at the same point."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING, Any

from harness.processes import doomed
from harness.processes.program import Program

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
    from pathlib import Path


async def killed_lives(
    config: Path,
    server: Any,
    point: str,
    passages: Iterable[int],
    begin: Callable[[], Awaitable[None]],
) -> AsyncIterator[int]:
    """Serve for one life per passage: `begin` it once the service is connected. Yield after each, when the service is dead.

    A passage is how often the service passes the point before it kills itself there (`doomed.py`).
    """
    for life, passage in enumerate(passages):
        program = Program(config, (sys.executable, "-I", doomed.__file__, point, str(passage)))
        await program.start()
        await server.reconnected(life)
        await begin()
        assert await program.ended() == -signal.SIGKILL
        yield life
