"""Formats numbers, times and durations for people."""

from __future__ import annotations

from datetime import UTC, datetime

from pubqueue.operations import model


def span(millis: float) -> str:
    """Return a duration in up to two units: 2 d 3 h, 4 min 5 s, 12 s, 40 ms."""
    if millis < 1_000:  # noqa: PLR2004  # a second
        return f"{max(0, int(millis))} ms"
    if millis < 10_000 and millis % 1_000:  # noqa: PLR2004  # so short that the tenths matter
        return f"{millis / 1000:.1f} s"
    return model.span(int(millis))


def moment(millis: int) -> str:
    """Return a time in UTC, with seconds: 2026-11-22 14:45:00."""
    return f"{datetime.fromtimestamp(millis // 1000, UTC):%Y-%m-%d %H:%M:%S}"


def clock(millis: float) -> str:
    """Return the time of day in UTC: 14:45."""
    return f"{datetime.fromtimestamp(millis // 1000, UTC):%H:%M}"


def number(value: float) -> str:
    """Return a number with separators for thousands: 12,345; 0.4."""
    return f"{value:,.0f}" if value == int(value) or abs(value) >= 100 else f"{value:,.1f}"  # noqa: PLR2004  # then nobody needs the tenths


def count(value: int, one: str) -> str:
    """Return a number with its noun: 1 item, 2 items."""
    return f"{value:,} {model.noun(value, one)}"
