"""How long tests wait for what has to come, and the one loop that looks for what sends no event."""

from __future__ import annotations

import asyncio
import time
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

TIMEOUT: Final = 180
"""Seconds, more than any machine needs: whoever has waited so long waits in vain."""
LOOK: Final = 0.01
"""Seconds between two looks at what another process does."""


async def until(
    condition: Callable[[], object | Awaitable[object]],
    *,
    every: float = 0,
    within: float | None = TIMEOUT,
) -> Any:  # whatever the condition returns
    """Return what the condition returns, or what it awaits, as soon as that is true.

    An event that can be awaited is better. This is for what sends none: a member that changes within this loop (a look at each
    turn), or what another process writes (a look each `LOOK` seconds).

    Raises:
        TimeoutError: it did not become true `within` so many seconds; None waits for as long as the caller does.

    """
    async with asyncio.timeout(within):
        while True:
            found = condition()
            if isawaitable(found):
                found = await found
            if found:
                return found
            await asyncio.sleep(every)


def wait_until(
    condition: Callable[[], object], *, every: float = LOOK, within: float = TIMEOUT, why: str = ""
) -> Any:  # whatever the condition returns
    """Return what the condition returns as soon as that is true, in a test without a loop.

    Raises:
        TimeoutError: it did not become true `within` so many seconds; its text is `why`.

    """
    end = time.monotonic() + within
    while not (found := condition()):
        if time.monotonic() > end:
            raise TimeoutError(why)
        time.sleep(every)
    return found


async def turns(count: int = 1) -> None:
    """Let the loop turn so often: a task begins in the first, and what must not happen has had its chance after many."""
    for _ in range(count):
        await asyncio.sleep(0)
