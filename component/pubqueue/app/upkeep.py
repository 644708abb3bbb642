"""What the tasks beside the broker tell of themselves: when each last came round, and what could not be ended.

They work without being asked, so nobody would miss them: a reaper that stands still ends no lock, and nothing else says so.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pubqueue.core.reading.summaries import Round

if TYPE_CHECKING:
    from collections.abc import Callable


class Upkeep:
    """The tasks by name; `clock` tells seconds, and is set by nobody."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tasks: dict[str, tuple[float, float]] = {}
        self.aside: Callable[[], int] = lambda: 0
        """How many overdue rows are set aside now, because they cannot be ended or read."""

    def begins(self, task: str, patience: float) -> Callable[[], None]:
        """Take note of a task that comes round within so many seconds; return what it has to call each time it does."""

        def done() -> None:
            self._tasks[task] = self._clock(), patience

        done()
        return done

    def ends(self, task: str) -> None:
        """Expect the task no more: it was stopped."""
        self._tasks.pop(task, None)

    def rounds(self) -> tuple[Round, ...]:
        """Return for each task how long ago it last came round, and whether that is too long."""
        now = self._clock()
        return tuple(
            Round(task, now - at, late=now - at > patience)
            for task, (at, patience) in self._tasks.items()
        )
