"""Makes a table as narrow as its terminal: names stay whole, prose is wrapped, and the least important columns are left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from rich.cells import cell_len

from pubqueue.app.management.cells import Cell

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pubqueue.app.management.model import Column

BETWEEN: Final = 2
"""Spaces between two columns."""

PROSE: Final = frozenset({"error", "detail", "state", "times", "value", "reason"})
"""Columns whose text may be wrapped: sentences, not names."""

NARROWEST: Final = 16
"""Characters that a column of prose keeps, if it has that many."""

SPARE: Final = (
    *("size", "seq", "workers", "unanswered", "rate", "priority", "acquired", "delayed", "origin"),
    *("last_holder", "failed", "published", "last", "source", "oldest", "holder", "in_flight"),
)
"""Columns that a narrow table leaves out, in this order; `--json` has them all."""


class Width(NamedTuple):
    """The width of a column: the least that keeps its names whole, and the most that it needs for one line."""

    least: int
    most: int


def fitted(
    columns: Sequence[Column], cells: Sequence[Sequence[str]], room: int
) -> list[tuple[int, int]] | None:
    """Return the columns that fit, by their numbers, each with its width. `cells` are rows of texts.

    None: the names are too wide to stand side by side.
    """
    widths = {
        number: _width(column, [row[number] for row in cells])
        for number, column in enumerate(columns)
    }
    for name in SPARE:
        if _sum(width.least for width in widths.values()) <= room:
            break
        for number in [number for number in widths if columns[number].name == name]:
            del widths[number]
    left = room - _sum(width.least for width in widths.values())
    if left < 0:
        return None
    found = {}
    for number in sorted(widths, key=lambda number: not _may_wrap(columns[number])):
        width = widths[number]
        more = min(left, width.most - width.least)
        left -= more
        found[number] = width.least + more
    return sorted(found.items())


def _sum(widths: Iterable[int]) -> int:
    return sum(width + BETWEEN for width in widths) - BETWEEN


def _may_wrap(column: Column) -> bool:
    return column.cell is Cell.NAMES or column.name in PROSE


def _width(column: Column, texts: Sequence[str]) -> Width:
    head = max(map(cell_len, column.label.split()), default=0)
    whole = max(map(cell_len, texts), default=0)
    words = max((cell_len(one) for text in texts for one in text.split()), default=0)
    most = max(cell_len(column.label), whole)
    if column.cell is Cell.NAMES:
        return Width(max(head, words), most)
    if _may_wrap(column):
        return Width(max(head, min(whole, NARROWEST)), most)
    return Width(max(head, whole), most)
