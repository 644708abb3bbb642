"""Numbers, moments and spans as people read them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"))


def span(millis: float) -> str:
    """Return a span in two units at most: 2 d 3 h, 4 min 5 s, 12 s, 40 ms."""
    if millis < 1_000:  # noqa: PLR2004  # a second
        return f"{max(0, int(millis))} ms"
    if millis < 10_000 and millis % 1_000:  # noqa: PLR2004  # so short that the tenths matter
        return f"{millis / 1000:.1f} s"
    left, parts = int(millis) // 1000, []
    for size, unit in _UNITS:
        if left >= size:
            parts.append(f"{left // size} {unit}")
            left %= size
        if len(parts) == 2:  # noqa: PLR2004  # as it says
            return " ".join(parts)
    if left or not parts:
        parts.append(f"{left} s")
    return " ".join(parts)


def moment(millis: int) -> str:
    """Return a moment in UTC, to the second: 2026-11-22 14:45:00."""
    return f"{datetime.fromtimestamp(millis // 1000, UTC):%Y-%m-%d %H:%M:%S}"


def clock(millis: float) -> str:
    """Return the time of day in UTC: 14:45."""
    return f"{datetime.fromtimestamp(millis // 1000, UTC):%H:%M}"


def number(value: float) -> str:
    """Return a number with its thousands apart: 12,345; 0.4."""
    return f"{value:,.0f}" if value == int(value) or abs(value) >= 100 else f"{value:,.1f}"  # noqa: PLR2004  # then nobody needs the tenths


def count(value: int, one: str) -> str:
    """Return a number with its noun: 1 item, 2 items."""
    return f"{value:,} {one if value == 1 else one + 's'}"
