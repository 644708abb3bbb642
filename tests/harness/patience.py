"""How long tests wait for expected events, and the one loop that polls where there is no event."""

from __future__ import annotations

import asyncio
import time
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Final

from harness.virtual_time import VirtualLoop

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

TIMEOUT: Final = 180
"""Seconds, more than any machine needs: a longer wait has no prospect."""
LOOK: Final = 0.01
"""Seconds between two polls of another process."""
TURNS: Final = 100
"""Turns of the loop after which a change in it is waited for without haste: it comes from another thread, or from a socket."""
SOON: Final = 0.001
"""Seconds between two of these later polls."""


async def until(
    condition: Callable[[], object | Awaitable[object]],
    *,
    every: float | None = None,
    within: float | None = TIMEOUT,
) -> Any:  # whatever the condition returns
    """Return the result of the condition, or of its awaitable, as soon as that is true.

    An event that can be awaited is better. This is for changes without an event: a member that changes within this loop (a
    poll at each turn, and later at each millisecond), or output of another process (a poll each `LOOK` seconds).

    Raises:
        TimeoutError: it did not become true `within` this many seconds; None waits for as long as the caller does.

    """
    is_virtual = isinstance(asyncio.get_running_loop(), VirtualLoop)  # it has no time to lose
    async with asyncio.timeout(within):
        turns = 0
        while True:
            found = condition()
            if isawaitable(found):
                found = await found
            if found:
                return found
            turns += 1
            pause = 0 if turns < TURNS or is_virtual else SOON
            await asyncio.sleep(pause if every is None else every)


def wait_until(
    condition: Callable[[], object], *, every: float = LOOK, within: float = TIMEOUT, why: str = ""
) -> Any:  # whatever the condition returns
    """Return the result of the condition as soon as that is true, in a test without a loop.

    Raises:
        TimeoutError: it did not become true `within` this many seconds; its text is `why`.

    """
    end = time.monotonic() + within
    while not (found := condition()):
        if time.monotonic() > end:
            raise TimeoutError(why)
        time.sleep(every)
    return found


async def turns(count: int = 1) -> None:
    """Let the loop turn this many times: a task begins in the first, and an event that must not happen has had its chance after many."""
    for _ in range(count):
        await asyncio.sleep(0)
