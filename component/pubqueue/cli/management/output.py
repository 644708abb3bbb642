"""The output of operations, for people and for programs.

For people a list is a table, written page by page. For programs it is JSON, one object per line, whose
keys are the columns of the operation: moments in the format of XEP-0082, names as lists, null for an empty cell.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, Final

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pubqueue.app.management.cells import Cell, json_of
from pubqueue.app.management.words import cell_text
from pubqueue.cli.management.table_width import fitted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pubqueue.app.management.cells import Value
    from pubqueue.app.management.model import Column, Operation
    from pubqueue.cli.management.session import Page

UNBOUNDED: Final = 10_000
"""The width of output that does not go to a terminal: lines are never wrapped there."""

RIGHT: Final = frozenset({Cell.COUNT, Cell.RATE})


def console() -> Console:
    """Return the console for tables."""
    if sys.stdout.isatty():
        return Console(highlight=False)
    return Console(file=sys.stdout, width=UNBOUNDED, highlight=False, color_system=None)


def plain(text: str) -> str:
    """Return text that is safe for a terminal: control characters are escaped."""
    return "".join(
        sign if sign.isprintable() or sign == "\n" else repr(sign)[1:-1] for sign in text
    )


def as_json(row: Mapping[str, Value], columns: Sequence[Column]) -> dict[str, Any]:
    """Return a row for JSON."""
    kinds = {column.name: column.cell for column in columns}
    return {name: json_of(kinds[name], value) for name, value in row.items()}


def write_json(value: object) -> None:
    """Write one line."""
    click.echo(json.dumps(value, ensure_ascii=False))


def rows(operation: Operation, page: Page, *, for_programs: bool) -> None:
    """Write the rows of one page."""
    if for_programs:
        for row in page.rows:
            write_json(as_json(row, operation.columns))
    elif page.rows:
        where = console()
        where.print(table(operation.columns, page.rows, page.now, where.width))


def table(
    columns: Iterable[Column],
    found: Iterable[Mapping[str, Value]],
    now: int | None,
    room: int = UNBOUNDED,
) -> Table:
    """Return rows as a table that is no wider than `room`.

    If names are too long to fit side by side, each row becomes several lines, one for each cell.
    """
    shown = [column for column in columns if not column.more]
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


def _lines(columns: Sequence[Column], cells: Sequence[Sequence[str]]) -> Table:
    made = Table.grid(padding=(0, 2))
    for row in cells:
        for column, text in zip(columns, row, strict=True):
            if text:
                made.add_row(Text(column.label, style="bold"), Text(text, overflow="fold"))
        made.add_row()
    return made


def facts(operation: Operation, page: Page, *, for_programs: bool) -> None:
    """Write the one row of an answer, cell by cell."""
    (row,) = page.rows
    if for_programs:
        write_json(as_json(row, operation.columns))
        return
    made = Table.grid(padding=(0, 2))
    for column in operation.columns:
        text = cell_text(column.cell, row[column.name], page.now)
        if text:
            made.add_row(Text(column.label, style="bold"), Text(plain(text), overflow="fold"))
    console().print(made)


def done(operation: Operation, page: Page, *, for_programs: bool) -> None:
    """Write the result of an operation."""
    if for_programs:
        row = as_json(page.rows[0], operation.columns) if page.rows else {}
        write_json({"done": operation.name, **row, "note": page.note})
    else:
        click.echo(plain(page.note))
