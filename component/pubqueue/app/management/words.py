"""Numbers and spans of time in plain words, the same wherever people read them."""

from __future__ import annotations

from typing import Final

from pubqueue.app.management.cells import Cell, Value, stamp

_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"))


def span(millis: int) -> str:
    """Return a span in up to two units: 2 d 3 h, 4 min 5 s, 12 s."""
    left, parts = max(0, millis) // 1000, []
    for size, unit in _UNITS:
        if left >= size:
            parts.append(f"{left // size} {unit}")
            left %= size
        if len(parts) == 2:  # noqa: PLR2004  # as it says
            return " ".join(parts)
    if left or not parts:
        parts.append(f"{left} s")
    return " ".join(parts)


def ago(now: int, then: int | None) -> str:
    """Return how long ago that was; empty if it never was."""
    return "" if then is None else span(now - then)


def count(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun: 1 item, 2 items."""
    return f"{number} {noun(number, one, many)}"


def noun(number: int, one: str, many: str = "") -> str:
    """Return a noun in the form that follows a number."""
    return one if number == 1 else many or f"{one}s"


def cell_text(cell: Cell, value: Value, now: int | None) -> str:
    """Return a cell as text for people; times are relative to `now`."""
    if value is None:
        return ""
    match cell:
        case Cell.SINCE if now is not None and isinstance(value, int):
            return ago(now, value)
        case Cell.MOMENT | Cell.SINCE:
            assert isinstance(value, int)
            return stamp(value)
        case Cell.RATE:
            return f"{value:.1f}"
        case Cell.FLAG:
            return "yes" if value else "no"
        case Cell.NAMES:
            assert isinstance(value, tuple)
            return ", ".join(value)
        case _:
            return str(value)
