"""The service's time, which the deadlines of locks refer to.

This machine's clock may be wrong by minutes, or be set while a handler runs. So the service is asked for its time
(XEP-0202), and the monotonic clock counts from there. The span from `published` to the deadline would need no clock,
but it is no measure: an item may have waited for days.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime


def read_time(text: str) -> datetime:
    """Read a time in the format of XEP-0082; raise ValueError if it is malformed."""
    read = datetime.fromisoformat(text)
    return read if read.tzinfo else read.replace(tzinfo=UTC)


class ServiceClock:
    """The service's time, continued by a monotonic clock; until it is set, this machine's time."""

    __slots__ = ("_offset",)

    def __init__(self) -> None:
        self._offset: float | None = None

    def set(self, shown: datetime, asked: float) -> None:
        """Set the clock to the service's answer.

        `asked` is the monotonic time of the request. The answer cannot be older, so deadlines are at worst taken to be
        too early, never too late.
        """
        self._offset = shown.timestamp() - asked

    def left(self, deadline: datetime, now: float) -> float:
        """Return the seconds until `deadline`, at the monotonic time `now`."""
        service = time.time() if self._offset is None else now + self._offset
        return deadline.timestamp() - service
