"""Cells of answers: their kinds, and each as text and back, the same in every representation."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import Enum, unique
from typing import TYPE_CHECKING

from pubqueue.model.entities import Millis

if TYPE_CHECKING:
    from collections.abc import Sequence

Value = str | int | float | bool | tuple[str, ...] | None
"""The value of a cell; None: no value."""


@unique
class Cell(Enum):
    """The kinds of cells. In JSON a moment is text as XEP-0082 writes it, and names are a list."""

    TEXT = "text"
    COUNT = "count"
    """A whole number."""
    RATE = "rate"
    """A number with a fraction."""
    MOMENT = "moment"
    """Milliseconds since 1970."""
    SINCE = "since"
    """A moment, displayed to people as the time since then."""
    FLAG = "flag"
    NAMES = "names"
    """Any number of names, in order."""


MOMENTS = frozenset({Cell.MOMENT, Cell.SINCE})


def stamp(moment: int) -> str:
    """Return milliseconds since 1970 as XEP-0082 writes a moment, in UTC."""
    second, millis = divmod(moment, 1000)
    at = datetime.fromtimestamp(second, UTC).replace(tzinfo=None)
    return f"{at.isoformat()}.{millis:03}Z"


def moment(text: str) -> Millis:
    """Return the milliseconds since 1970 of the text written by `stamp`."""
    at = datetime.fromisoformat(text)
    return Millis(int(at.replace(microsecond=0).timestamp()) * 1000 + at.microsecond // 1000)


def texts(cell: Cell, value: Value) -> tuple[str, ...]:
    """Return a cell as the values of a field."""
    if value is None:
        return ()
    match cell:
        case Cell.MOMENT | Cell.SINCE:
            assert isinstance(value, int)
            return (stamp(value),)
        case Cell.FLAG:
            return ("1" if value else "0",)
        case Cell.NAMES:
            assert isinstance(value, tuple)
            return value
        case _:
            return (str(value),)


def value_of(cell: Cell, values: Sequence[str]) -> Value:
    """Return the cell written by `texts`; raises ValueError if that is impossible."""
    if cell is Cell.NAMES:
        return tuple(values)
    if not values:
        return None
    text = values[0]
    match cell:
        case Cell.COUNT:
            return int(text)
        case Cell.RATE:
            return float(text)
        case Cell.MOMENT | Cell.SINCE:
            return moment(text)
        case Cell.FLAG:
            return text in {"1", "true"}
        case _:
            return text


def json_of(cell: Cell, value: Value) -> Value:
    """Return a cell as it is in JSON."""
    return stamp(value) if cell in MOMENTS and isinstance(value, int) else value
