"""Replaces aiohttp's log lines about malformed requests, which contain a traceback and the bytes of the request, secrets included."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

import structlog
from aiohttp.http_exceptions import HttpProcessingError

from pubqueue.faces.faults import fault

if TYPE_CHECKING:
    from collections.abc import Callable

log = structlog.get_logger(__name__)

LINES: Final = 10
"""Log lines per minute about malformed requests; the next line has the number of those that were dropped."""

MINUTE: Final = 60.0


class Malformed(logging.Filter):
    """Replaces each line by one without bytes. `clock` returns seconds and is monotonic."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._begun, self._lines, self._passed_over = clock(), 0, 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Log our own event, and drop the line. A client that has disconnected is not logged."""
        problem = record.exc_info[1] if record.exc_info else None
        if isinstance(problem, HttpProcessingError):
            self._malformed(type(problem).__name__)
        elif isinstance(problem, Exception) and not isinstance(problem, ConnectionResetError):
            log.error("request.failed", face="http", **fault(problem))
        return False

    def _malformed(self, why: str) -> None:
        now = self._clock()
        if now - self._begun >= MINUTE:
            self._begun, self._lines = now, 0
        if self._lines >= LINES:
            self._passed_over += 1
            return
        self._lines += 1
        log.info("request.malformed", why=why, passed_over=self._passed_over)
        self._passed_over = 0


def logger() -> logging.Logger:
    """Return the logger for a host."""
    made = logging.getLogger(f"{__name__}.server")
    if not made.filters:
        made.addFilter(Malformed())
    return made
