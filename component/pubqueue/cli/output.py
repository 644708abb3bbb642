"""What commands print: tables for people, lines and JSON for programs, and the findings of `pubqueue doctor`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum, unique
from typing import TYPE_CHECKING, Any

import click

from pubqueue.cli.exit_codes import plain
from pubqueue.operations.model import json_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pubqueue.admin.session import Page
    from pubqueue.operations.model import Column, Operation, Value


# The output of operations, for people and for programs.
#
# For people a list is a table, written page by page. For programs it is JSON, one object per line, whose
# keys are the columns of the operation: moments in the format of XEP-0082, names as lists, null for an empty cell.


def as_json(row: Mapping[str, Value], columns: Sequence[Column]) -> dict[str, Any]:
    """Return a row for JSON."""
    kinds = {column.name: column.cell for column in columns}
    return {name: json_of(kinds[name], value) for name, value in row.items()}


def write_json(value: object) -> None:
    """Write one line."""
    click.echo(json.dumps(value, ensure_ascii=False))


def rows(operation: Operation, page: Page, *, for_programs: bool, service: str = "") -> None:
    """Write the rows of one page; for programs with the service, if it is one of several."""
    if for_programs:
        for row in page.rows:
            write_json(_named(service) | as_json(row, operation.columns))
    elif page.rows:
        from pubqueue.cli import tables  # noqa: PLC0415  # imports rich, for people alone

        where = tables.console()
        where.print(tables.table(operation.columns, page.rows, page.now, where.width))


def _named(service: str) -> dict[str, Any]:
    return {"service": service} if service else {}


def facts(operation: Operation, page: Page, *, for_programs: bool, service: str = "") -> None:
    """Write the one row of an answer, cell by cell; for programs with the service, if it is one of several."""
    (row,) = page.rows
    if for_programs:
        write_json(_named(service) | as_json(row, operation.columns))
        return
    from pubqueue.cli import tables  # noqa: PLC0415  # imports rich, for people alone

    tables.console().print(tables.cells(operation.columns, row, page.now))


def done(operation: Operation, page: Page, *, for_programs: bool) -> None:
    """Write the result of an operation."""
    if for_programs:
        row = as_json(page.rows[0], operation.columns) if page.rows else {}
        warns = {"warns": True} if page.warns else {}
        write_json({"done": operation.name, **row, "note": page.note, **warns})
    else:
        click.echo(plain(page.note))


# The findings of `pubqueue doctor`: a line about each thing that it has checked.


@unique
class Level(StrEnum):
    """How serious a finding is."""

    GOOD = "good"
    LOOK = "look at this"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence about one thing."""

    level: Level
    about: str
    says: str


def good(about: str, says: str) -> Finding:
    """Return a finding that all is well."""
    return Finding(Level.GOOD, about, says)


def look(about: str, says: str) -> Finding:
    """Return a warning; the service works."""
    return Finding(Level.LOOK, about, says)


def bad(about: str, says: str) -> Finding:
    """Return a finding about what does not work, or soon will not."""
    return Finding(Level.BAD, about, says)
