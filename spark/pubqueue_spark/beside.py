"""What stands beside the item in a publish: when it may go out, which go first, and its headers."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from pubqueue_spark.payload import legal
from pubqueue_xeps import ns

LONGEST: Final = 100 * 365 * 86400
"""Seconds; more than a service's clock can count is a mistake in a unit."""
SPACES: Final = {"\n": "&#10;", "\r": "&#13;", "\t": "&#9;"}
"""A parser reads a line end or tab in an attribute as a space, unless it is written so."""


def meta(priority: object, delay: object, not_before: object, ttl: object) -> str:
    """Write the metadata; the types were checked with the schema. Raises ValueError."""
    if delay is not None and not_before is not None:
        raise ValueError("it has both delay and not_before; leave one of them null")
    given = {
        "delay": _until(not_before) if delay is None else _seconds("delay", delay),
        "priority": None if priority is None else str(priority),
        "ttl": _seconds("ttl", ttl),
    }
    attributes = "".join(f" {name}='{value}'" for name, value in given.items() if value is not None)
    return f"<meta xmlns='{ns.PUBQUEUE}'{attributes}/>" if attributes else ""


def headers(given: object) -> str:
    """Write the headers (XEP-0131); one whose value is null is not there. Raises ValueError."""
    if not given:
        return ""
    assert isinstance(given, dict)
    written = [_header(name, value) for name, value in given.items() if value is not None]
    return f"<headers xmlns='{ns.HEADERS}'>{''.join(written)}</headers>" if written else ""


def _header(name: str, value: str) -> str:
    if not name:
        raise ValueError("headers has a header without a name")
    try:
        quoted, text = quoteattr(legal(name), SPACES), escape(legal(value), {"\r": "&#13;"})
    except ValueError as error:
        raise ValueError(f"headers {error}") from None
    return f"<header name={quoted}>{text}</header>"


def _until(moment: object) -> str | None:
    """Return the seconds from now; a moment that is past asks for no delay."""
    if moment is None:
        return None
    assert isinstance(moment, datetime)
    # Spark hands timestamps over in the time zone of the worker process, without saying so.
    left = (moment.astimezone(UTC) - datetime.now(UTC)).total_seconds()
    return _seconds("not_before", left) if left > 0 else None


def _seconds(column: str, value: object) -> str | None:
    if value is None:
        return None
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    assert isinstance(seconds, int | float)
    if not math.isfinite(seconds) or not 0 <= seconds <= LONGEST:
        raise ValueError(f"{column} is {seconds}; it takes seconds, 0 or more")
    return f"{seconds:.3f}".rstrip("0").rstrip(".")
