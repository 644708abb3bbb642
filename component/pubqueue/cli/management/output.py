"""The output of operations, for people and for programs.

For people a list is a table, written page by page. For programs it is JSON, one object per line, whose
keys are the columns of the operation: moments in the format of XEP-0082, names as lists, null for an empty cell.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from pubqueue.cli.plain_text import plain
from pubqueue.operations.model import json_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pubqueue.cli.management.session import Page
    from pubqueue.operations.model import Column, Operation, Value


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
        from pubqueue.cli.management import tables  # noqa: PLC0415  # imports rich, for people alone

        where = tables.console()
        where.print(tables.table(operation.columns, page.rows, page.now, where.width))


def facts(operation: Operation, page: Page, *, for_programs: bool) -> None:
    """Write the one row of an answer, cell by cell."""
    (row,) = page.rows
    if for_programs:
        write_json(as_json(row, operation.columns))
        return
    from pubqueue.cli.management import tables  # noqa: PLC0415  # imports rich, for people alone

    tables.console().print(tables.cells(operation.columns, row, page.now))


def done(operation: Operation, page: Page, *, for_programs: bool) -> None:
    """Write the result of an operation."""
    if for_programs:
        row = as_json(page.rows[0], operation.columns) if page.rows else {}
        write_json({"done": operation.name, **row, "note": page.note})
    else:
        click.echo(plain(page.note))
