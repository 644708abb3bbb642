"""Limits the wait for work that does not end: a lock held elsewhere, a disk or a database that does not answer."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STALLED_AFTER: Final = 4.0
"""Seconds that requests wait for the work before them. Work that a store refuses because of a lock ends a second later."""

PERIOD: Final = 1.0
"""Seconds between two checks for requests that have come since then."""


@contextmanager
def no_longer_behind(refuse: Callable[[], None]) -> Iterator[None]:
    """Call `refuse` when the body has run for `STALLED_AFTER` seconds, and then every `PERIOD` until it ends."""
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
