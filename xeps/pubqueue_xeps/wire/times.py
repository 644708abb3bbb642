"""Times as callers pass them: seconds, a `timedelta`, or an aware `datetime`.

A `datetime` is converted to seconds from now, by this machine's clock, when the call is made; a past one counts as now.
A naive `datetime` is refused, because its time zone is unknown.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from math import inf
from typing import Final

Span = float | timedelta
"""A duration: seconds or a timedelta."""

When = float | timedelta | datetime
"""A duration from now or a point in time: seconds, a timedelta, or an aware datetime."""

MAX_DELAY: Final = 3_162_240_000.0
"""The longest time that a service accepts, in seconds: a hundred years."""

_SPAN: Final = "seconds, 0 or more, or a timedelta"
_WHEN: Final = "seconds, 0 or more, a timedelta, or an aware datetime"


def span(name: str, value: object, longest: float = inf) -> float:
    """Return a duration in seconds; raise ValueError, with `name` in its message, if it is invalid."""
    return _within(name, value, longest, _SPAN)


def until(name: str, value: object, longest: float = MAX_DELAY) -> float:
    """Return the seconds from now until a duration or time has passed, 0 for a past time; raise ValueError as `span` does."""
    if not isinstance(value, datetime):
        return _within(name, value, longest, _WHEN)
    if value.utcoffset() is None:
        raise ValueError(
            f"{name} is {value.isoformat()}, which has no time zone; an aware datetime has one,"
            " such as datetime.now(UTC)"
        )
    return _within(name, max(0.0, (value - datetime.now(UTC)).total_seconds()), longest, _WHEN)


def _within(name: str, value: object, longest: float, taken: str) -> float:
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    # NaN is in no range, and True is a number only in Python
    number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not number or not 0 <= seconds <= longest:  # type: ignore[operator]  # a number
        raise ValueError(f"{name} is {value!r}; it takes {taken}")
    return seconds  # type: ignore[return-value]  # as above


# The service's time, which the deadlines of locks refer to.
#
# This machine's clock may be wrong by minutes, or be set while a handler runs. So the service is asked for its time
# (XEP-0202), and the monotonic clock counts from there. The span from `published` to the deadline would need no clock,
# but it is no measure: an item may have waited for days.


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
