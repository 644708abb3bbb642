"""Asks for a commit until it is done, for as long as it advances."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING, Final, TypeVar

from pubqueue_xeps.errors import ServiceUnavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pubqueue_xeps.wire.requests.transactions import AtWork

T = TypeVar("T")

SOONEST: Final = 0.1
LATEST: Final = 2.0
"""Seconds between two questions: small commits are asked for soon again, long ones rarely."""

RECENT: Final = 8
"""Answers that are no news; several processes that serve from one store answer each for itself."""


async def until_done(
    ask: Callable[[], Awaitable[T]],
    progress: Callable[[T], AtWork | None],
    *,
    patience: float,
    reported: Callable[[AtWork], None] = lambda _at_work: None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> T:
    """Return the first answer without progress: the commit has ended.

    A commit may take any time, as long as it advances: `patience` is for how many seconds it may stand still. `reported` is
    called with each progress. Raises ServiceUnavailable, or what `ask` raises.
    """
    seen: deque[AtWork] = deque(maxlen=RECENT)
    since, pause = clock(), SOONEST
    while True:
        answer = await ask()
        at_work = progress(answer)
        if at_work is None:
            return answer
        now = clock()
        if at_work not in seen:
            seen.append(at_work)
            since = now
        elif now - since >= patience:
            raise ServiceUnavailable(
                f"the commit has not advanced for {now - since:.0f} seconds: {at_work}."
            )
        reported(at_work)
        await sleep(pause)
        pause = min(LATEST, 2 * pause)
