"""How long a process counts as alive after its last sign of life, and which process may judge that.

Only a process that was itself in touch with the store all the time may judge: while the store was unreachable, or the whole
machine was suspended, no process could write. A judgement may still be wrong; then the batches of the judged process are
fenced, and it enters again. So these times decide how soon unfinished work is taken over, and never what is kept.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

LEASE: Final = 10.0
"""Seconds without a sign of life after which the number of a process may be taken: it hangs, or its machine is gone."""

GAP: Final = 3.0
"""Seconds between two of our own signs of life (one is written each second) after which we judge no process for a lease."""


def since_start() -> float:
    """Return the seconds since the machine was started, sleep included. Setting the clock does not change them."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class LeaseWatch:
    """Whether this process has been in touch with the store long enough to judge that others have not."""

    def __init__(self, clock: Callable[[], float] = since_start) -> None:
        self._clock = clock
        self._since = -LEASE
        self._last: float | None = None

    def touched(self, *, anew: bool = False) -> None:
        """Note a write to the store; `anew` if the connection to it had been lost."""
        now = self._clock()
        if anew or (self._last is not None and now - self._last > GAP):
            self._since = now
        self._last = now

    @property
    def may_judge(self) -> bool:
        """Whether there was no gap for the length of a lease; at the start there was none."""
        now = self._clock()
        gone = self._last is not None and now - self._last > GAP
        return not gone and now - self._since >= LEASE
