"""The clock of the database. Deadlines of locks are set and judged by it, because it is the only one that all instances share.

Each batch gets the time with its first answer, at no cost. Between batches it is computed from the clock of the machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from pubqueue.model.entities import Millis

if TYPE_CHECKING:
    from collections.abc import Callable

log = structlog.get_logger(__name__)

LATE: Final = 250
"""Milliseconds by which an answer may be late. One that would set the clock back further has to be confirmed."""

SEEN: Final = 3
"""Consecutive answers that confirm it."""

WORTH_A_WORD: Final = 1000
"""Milliseconds by which the difference of the clocks has to change to be logged."""


class ServerClock:
    """The time of the database, computed from the clock of this machine.

    Each answer is late by its latency. So the greatest difference is the most accurate, and one slow answer does not set the
    clock back.
    """

    def __init__(self) -> None:
        self._machine: Callable[[], Millis] | None = None
        self._ahead: int | None = None
        self._lower: list[int] = []
        self._logged = 0

    @property
    def ahead(self) -> int:
        """How many milliseconds the database's clock is ahead of this machine's, if known."""
        return self._ahead or 0

    def beside(self, machine: Callable[[], Millis]) -> Callable[[], Millis]:
        """Return a clock that returns the time of the database, in milliseconds since 1970, from this machine's clock."""
        self._machine = machine
        return lambda: Millis(machine() + self.ahead)

    def note_time(self, now: Millis) -> None:
        """Note the time that the database has just returned."""
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
