"""Writes the metadata of a publish: earliest delivery, priority, and headers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from pubqueue_xeps.wire.requests import publishing


def meta(priority: object, delay: object, not_before: object, ttl: object) -> str:
    """Write the metadata; the types were checked with the schema. Raises ValueError."""
    if delay is not None and not_before is not None:
        raise ValueError("it has both delay and not_before; leave one of them null")
    wait = _until(not_before) if delay is None else _seconds("delay", delay)
    if wait is None and priority is None and ttl is None:
        return ""
    return publishing.meta(delay=wait, priority=priority, ttl=_seconds("ttl", ttl))


def headers(given: object) -> str:
    """Write the headers (XEP-0131), without those whose value is null. Raises ValueError."""
    if not given:
        return ""
    assert isinstance(given, dict)
    return publishing.headers(given)


def _until(moment: object) -> str | None:
    """Return the seconds from now; 0 for a past time."""
    if moment is None:
        return None
    assert isinstance(moment, datetime)
    # Spark passes timestamps in the time zone of the worker process, without naming it.
    left = (moment.astimezone(UTC) - datetime.now(UTC)).total_seconds()
    return _seconds("not_before", left) if left > 0 else None


def _seconds(column: str, value: object) -> str | None:
    span = value.total_seconds() if isinstance(value, timedelta) else value
    return publishing.seconds(column, span)
