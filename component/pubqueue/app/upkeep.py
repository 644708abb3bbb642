"""The state of the background tasks: when each last completed a round, and how many rows could not be ended.

No request waits for them, so a fault would go unnoticed: a reaper that hangs ends no lock, and nothing else
shows it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pubqueue.model.replies import Round

if TYPE_CHECKING:
    from collections.abc import Callable


class Upkeep:
    """The tasks by name; `clock` returns seconds that never go back."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tasks: dict[str, tuple[float, float]] = {}
        self.aside: Callable[[], int] = lambda: 0
        """How many overdue rows are set aside now, because they cannot be ended or read."""

    def begins(self, task: str, patience: float) -> Callable[[], None]:
        """Add a task that completes a round within this many seconds; return the function that it calls each time."""

        def done() -> None:
            self._tasks[task] = self._clock(), patience

        done()
        return done

    def ends(self, task: str) -> None:
        """Remove the task: it was stopped."""
        self._tasks.pop(task, None)

    def rounds(self) -> tuple[Round, ...]:
        """Return for each task how long ago it last completed a round, and whether that is too long."""
        now = self._clock()
        return tuple(
            Round(task, now - at, late=now - at > patience)
            for task, (at, patience) in self._tasks.items()
        )
