"""The output of operations for people: tables as narrow as the terminal.

Names stay whole, prose is wrapped, and the least important columns are left out.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pubqueue.cli.exit_codes import plain
from pubqueue.operations.model import Cell, cell_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pubqueue.operations.model import Column, Value


UNBOUNDED: Final = 10_000
"""The width of output that does not go to a terminal: lines are never wrapped there."""

RIGHT: Final = frozenset({Cell.COUNT, Cell.RATE})

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


RARE: Final = frozenset({"waits_for", "since"})
"""Columns for programs that people see too, of rows that have them: those of held items."""


def console() -> Console:
    """Return the console for tables."""
    if sys.stdout.isatty():
        return Console(highlight=False)
    return Console(file=sys.stdout, width=UNBOUNDED, highlight=False, color_system=None)


def table(
    columns: Iterable[Column],
    found: Iterable[Mapping[str, Value]],
    now: int | None,
    room: int = UNBOUNDED,
) -> Table:
    """Return rows as a table that is no wider than `room`.

    If names are too long to fit side by side, each row becomes several lines, one for each cell.
    """
    found = list(found)
    shown = [column for column in columns if not column.more or _is_rare(column, found)]
    cells = [[plain(cell_text(one.cell, row[one.name], now)) for one in shown] for row in found]
    kept = fitted(shown, cells, room)
    if kept is None:
        return _lines(shown, cells)
    made = Table(box=None, pad_edge=False, header_style="bold")
    for number, width in kept:
        column = shown[number]
        justify: Any = "right" if column.cell in RIGHT else "left"
        made.add_column(column.label, justify=justify, overflow="fold", width=width)
    for row in cells:
        made.add_row(*(Text(row[number]) for number, _ in kept))
    return made


def _is_rare(column: Column, found: Iterable[Mapping[str, Value]]) -> bool:
    """Return whether a column that few rows have is shown because one of these has it."""
    return column.name in RARE and any(row[column.name] for row in found)


def _lines(columns: Sequence[Column], cells: Sequence[Sequence[str]]) -> Table:
    made = Table.grid(padding=(0, 2))
    for row in cells:
        for column, text in zip(columns, row, strict=True):
            if text:
                made.add_row(Text(column.label, style="bold"), Text(text, overflow="fold"))
        made.add_row()
    return made


def cells(columns: Iterable[Column], row: Mapping[str, Value], now: int | None) -> Table:
    """Return one row as a table with a line for each cell that is not empty."""
    made = Table.grid(padding=(0, 2))
    for column in columns:
        text = cell_text(column.cell, row[column.name], now)
        if text:
            made.add_row(Text(column.label, style="bold"), Text(plain(text), overflow="fold"))
    return made


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
