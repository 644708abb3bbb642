"""What time it is at the service, by which the deadlines of locks are meant.

This machine's clock may be wrong by minutes, or be set while a handler runs. So the service is asked
for its time (XEP-0202), and from there on the monotonic clock counts. A span such as deadline less
`published` would need no clock, but it is no measure: an item may have waited for days.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime


def read_time(text: str) -> datetime:
    """Read a time as XEP-0082 writes it; ValueError if it is none."""
    read = datetime.fromisoformat(text)
    return read if read.tzinfo else read.replace(tzinfo=UTC)


class ServiceClock:
    """The service's time, carried on by a monotonic clock; until it is set, this machine's time."""

    __slots__ = ("_offset",)

    def __init__(self) -> None:
        self._offset: float | None = None

    def set(self, shown: datetime, asked: float) -> None:
        """Set the clock to the time that the service has answered.

        `asked` is the monotonic time of the request: the answer cannot be older, so the service's clock is never
        taken to be earlier than it shows, and deadlines seem near rather than far.
        """
        self._offset = shown.timestamp() - asked

    def left(self, deadline: datetime, now: float) -> float:
        """Return the seconds until `deadline`, at the monotonic time `now`."""
        service = time.time() if self._offset is None else now + self._offset
        return deadline.timestamp() - service
