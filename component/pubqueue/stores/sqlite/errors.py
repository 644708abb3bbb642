"""Translates SQLite's errors to those of the store interface."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from pubqueue.engine.ports import StaleError, StoreError, UnfitError
from pubqueue.stores.guarded import unfit

if TYPE_CHECKING:
    from collections.abc import Iterator


NO_TEXT: Final = "Could not decode to UTF-8"
"""The beginning of its error about a row that has bytes in place of text."""


def words(problem: Exception) -> StoreError:
    """Return the store error for an exception that an operation on an open transaction has raised."""
    match problem:
        case sqlite3.IntegrityError():  # a constraint is also a guard
            return StaleError("constraint", str(problem))
        case sqlite3.DataError() | sqlite3.ProgrammingError() | sqlite3.InterfaceError():
            return UnfitError(str(problem))  # too long, or of no type that SQLite knows
        case sqlite3.OperationalError() if str(problem).startswith(NO_TEXT):
            return UnfitError("a text in a row is none")  # SQLite's message would contain the value
        case sqlite3.Error():
            return StoreError(str(problem))
        case _:
            return unfit(problem)


@contextmanager
def translated() -> Iterator[None]:
    """Raise errors of SQLite as StoreError."""
    try:
        yield
    except sqlite3.Error as problem:
        raise StoreError(str(problem)) from problem
