"""An event loop whose clock leaps to the next timer whenever nothing is ready: hours pass in seconds.

It has no sockets and no threads, and looks at no other clock, so that one run is as the other.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")

RESOLUTION = 1e-6


class StandstillError(Exception):
    """Nothing is ready, and nothing ever will be: a task waits for what does not come."""


class VirtualLoop(asyncio.BaseEventLoop):
    """Runs what is ready, then lets time leap. It begins at 0."""

    _scheduled: list[asyncio.TimerHandle]

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._clock_resolution = RESOLUTION
        self._selector = self  # what asyncio asks to wait

    def time(self) -> float:
        """Return the seconds since the beginning."""
        return self._now

    def select(self, timeout: float | None) -> list[object]:
        """Wait, as asyncio sees it: until the first timer, if nothing is ready."""
        if timeout is None:
            raise StandstillError
        if timeout > 0:
            self._now = max(self._now, self._scheduled[0].when())
        return []

    def _process_events(self, _events: object) -> None:
        """Nothing comes from outside."""

    def _write_to_self(self) -> None:
        """No selector is asleep that would have to be woken."""


def run(main: Coroutine[object, object, T]) -> T:
    """Run on a loop of its own, from the time 0 on, and end whatever is left."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
