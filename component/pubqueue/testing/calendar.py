"""The time of a service under test: it stands still, except when a test moves it on."""

from __future__ import annotations

import time

from pubqueue.model.entities import Millis, later, seconds


class Calendar:
    """Begins at the time of the machine."""

    def __init__(self) -> None:
        self._now = Millis(time.time_ns() // 1_000_000)

    def now(self) -> Millis:
        """Return the current time."""
        return self._now

    def advance(self, count: float) -> None:
        """Let this many seconds pass.

        Raises:
            ValueError: the number is negative.

        """
        if count < 0:
            raise ValueError(f"time passes by 0 seconds or more, not {count}")
        self._now = later(self._now, seconds(count))

    def reach(self, moment: Millis) -> None:
        """Move on to that time, if it is in the future."""
        self._now = max(self._now, moment)
