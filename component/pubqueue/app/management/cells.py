"""Cells of answers: what kinds there are, and each as text and back, the same wherever it is carried."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import Enum, unique
from typing import TYPE_CHECKING

from pubqueue.core.model import Millis

if TYPE_CHECKING:
    from collections.abc import Sequence

Value = str | int | float | bool | tuple[str, ...] | None
"""The value of a cell; None: there is none."""


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
    """A moment of which people want to know how long ago it was."""
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
    """Return the milliseconds since 1970 of what `stamp` has written."""
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
    """Return the cell that `texts` has written; raises ValueError if that cannot be."""
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
