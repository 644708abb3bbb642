"""How long a process counts as one that lives without another word of it, and who may judge that.

Only a process that has been in touch with the store all the time itself: where the store was away, or the whole machine
stood still, nobody could say a word. What it judges may be wrong all the same; then its batches are fenced, and it
enters again. So these times decide how soon what a process has left undone is taken up, and never what is kept.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

LEASE: Final = 10.0
"""Seconds without a word after which the number of a process may be taken: it hangs, or its machine is gone."""

GAP: Final = 3.0
"""Seconds between two words of ours after which nobody is judged before another lease is over; there is one each second."""


def since_start() -> float:
    """Return the seconds since the machine was started: no clock that is set moves them, and they go on in its sleep."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class LeaseWatch:
    """Whether this process has been in touch with the store for so long that it may say of others that they have not."""

    def __init__(self, clock: Callable[[], float] = since_start) -> None:
        self._clock = clock
        self._since = -LEASE
        self._last: float | None = None

    def touched(self, *, anew: bool = False) -> None:
        """Take note of a word to the store; `anew` if the way to it had been lost."""
        now = self._clock()
        if anew or (self._last is not None and now - self._last > GAP):
            self._since = now
        self._last = now

    @property
    def may_judge(self) -> bool:
        """Whether no gap was met in the length of a lease; at the start there was none to meet."""
        now = self._clock()
        gone = self._last is not None and now - self._last > GAP
        return not gone and now - self._since >= LEASE
