"""Ranges of numbers: where a read begins and ends, and how it is cut into tasks. Pure.

A range is written as everywhere in the service: after `after`, up to and including `until`.
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
"""Numbers that are worth a task of their own."""
DEFAULT_PARTITIONS: Final = 8
"""The default number of tasks of a read: they all query one service."""


def cut(after: int, until: int, pieces: int | None) -> list[tuple[int, int]]:
    """Cut a range into this many, or into as many as is worthwhile; an empty one into none."""
    width = until - after
    if width <= 0:
        return []
    count = min(width, pieces or min(DEFAULT_PARTITIONS, -(-width // WORTH)))
    edges = [after + width * number // count for number in range(count + 1)]
    return list(pairwise(edges))


def begin(start: Bound | datetime, base: int, newest: int, first: First) -> int:
    """Return the number after which to begin; the log has those after `base`, up to `newest`."""
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
    """Return the number after which everything is from `moment` or later.

    `first` returns number and time of the first entry after a number. Times rise with numbers.
    """
    while low < high:
        middle = (low + high) // 2
        entry = first(middle)
        if entry is not None and entry[1] < moment:
            low = entry[0]
        else:
            high = middle
    return low
