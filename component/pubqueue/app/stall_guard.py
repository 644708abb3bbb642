"""Nobody waits behind work that does not end: a lock that somebody holds, a disk or a database that does not answer."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STALLED_AFTER: Final = 4.0
"""Seconds that others wait behind a piece of work. One that a store refuses for a lock ends a second later."""

PERIOD: Final = 1.0
"""Seconds between two looks at who has come since then."""


@contextmanager
def no_longer_behind(refuse: Callable[[], None]) -> Iterator[None]:
    """Let others wait behind the body for a while, then call this again and again until it has ended."""
    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle

    def look(after: float) -> None:
        nonlocal timer
        timer = loop.call_later(after, again)

    def again() -> None:
        look(PERIOD)
        refuse()

    look(STALLED_AFTER)
    try:
        yield
    finally:
        timer.cancel()
