"""Ranges of numbers: where a read starts and ends, and how it is split into tasks. Pure.

A range starts after `after`, and ends with `until`, as everywhere in the service.
"""

from __future__ import annotations

from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue_spark.read.options import Bound

    First = Callable[[int], tuple[int, datetime] | None]

WORTH: Final = 10_000
"""The minimum numbers in a task."""
DEFAULT_PARTITIONS: Final = 8
"""The default number of tasks of a read; they all query one service."""


def cut(after: int, until: int, pieces: int | None) -> list[tuple[int, int]]:
    """Split a range into this many, or fewer if they would be too small; an empty one into none."""
    width = until - after
    if width <= 0:
        return []
    count = min(width, pieces or min(DEFAULT_PARTITIONS, -(-width // WORTH)))
    edges = [after + width * number // count for number in range(count + 1)]
    return list(pairwise(edges))


def begin(start: Bound | datetime, base: int, newest: int, first: First) -> int:
    """Return the number after which to start; the log has the numbers after `base`, up to `newest`."""
    match start:
        case "earliest":
            return base
        case "latest":
            return newest
        case datetime():
            return _since(start, base, newest, first)
        case _:
            return start


def _since(moment: datetime, low: int, high: int, first: First) -> int:
    """Return the number after which all entries are from `moment` or later.

    `first` returns number and time of the first entry after a number. Times increase with numbers.
    """
    while low < high:
        middle = (low + high) // 2
        entry = first(middle)
        if entry is not None and entry[1] < moment:
            low = entry[0]
        else:
            high = middle
    return low
