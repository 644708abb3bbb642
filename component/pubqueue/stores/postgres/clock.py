"""The clock of the database: by it the deadlines of locks are set and judged, for instances have no other in common.

Each batch learns the time with its first answer, for nothing. Between batches the clock of the machine goes on from there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from pubqueue.core.model import Millis

if TYPE_CHECKING:
    from collections.abc import Callable

log = structlog.get_logger(__name__)

LATE: Final = 250
"""Milliseconds by which an answer may be late: one that seems to set the clock back further has to be seen again."""

SEEN: Final = 3
"""Answers in a row that have to say so."""

WORTH_A_WORD: Final = 1000
"""Milliseconds by which the clocks have to differ otherwise than before to be logged."""


class ServerClock:
    """What is known of the time of the database, by the clock of this machine.

    An answer is late by its way: so of what they say the greatest is nearest to the truth, and a clock does not go back because
    one answer was slow.
    """

    def __init__(self) -> None:
        self._machine: Callable[[], Millis] | None = None
        self._ahead: int | None = None
        self._lower: list[int] = []
        self._logged = 0

    @property
    def ahead(self) -> int:
        """How many milliseconds the database's clock is ahead of this machine's, as far as it is known."""
        return self._ahead or 0

    def beside(self, machine: Callable[[], Millis]) -> Callable[[], Millis]:
        """Return the time of the database from now on, in milliseconds since 1970, by what this machine's clock shows."""
        self._machine = machine
        return lambda: Millis(machine() + self.ahead)

    def note_time(self, now: Millis) -> None:
        """Take note of the time that the database has just told."""
        if self._machine is None:
            return
        ahead = now - self._machine()
        if self._ahead is None or ahead >= self._ahead:
            self._adopt(ahead)
        elif ahead >= self._ahead - LATE:
            self._lower.clear()
        else:
            self._lower.append(ahead)
            if len(self._lower) == SEEN:
                self._adopt(max(self._lower))

    def _adopt(self, ahead: int) -> None:
        self._ahead = ahead
        self._lower.clear()
        if abs(ahead - self._logged) >= WORTH_A_WORD:
            self._logged = ahead
            log.warning("clock.differs", database_ahead=round(ahead / 1000, 1))
