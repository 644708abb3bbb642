"""What SQLite refuses, in the words of the seam."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from pubqueue.app.store.ports import StaleError, StoreError, UnfitError
from pubqueue.stores.guarded import unfit

if TYPE_CHECKING:
    from collections.abc import Iterator


NO_TEXT: Final = "Could not decode to UTF-8"
"""How it begins what it says of a row in which somebody has written bytes for text."""


def words(problem: Exception) -> StoreError:
    """Return the error of the seam for what an operation on an open transaction has raised."""
    match problem:
        case sqlite3.IntegrityError():  # a constraint is a guard as well
            return StaleError("constraint", str(problem))
        case sqlite3.DataError() | sqlite3.ProgrammingError() | sqlite3.InterfaceError():
            return UnfitError(str(problem))  # too long, or of no type that SQLite knows
        case sqlite3.OperationalError() if str(problem).startswith(NO_TEXT):
            return UnfitError("a text in a row is none")  # its own words show what is there
        case sqlite3.Error():
            return StoreError(str(problem))
        case _:
            return unfit(problem)


@contextmanager
def translated() -> Iterator[None]:
    """Tell what SQLite refuses as a StoreError."""
    try:
        yield
    except sqlite3.Error as problem:
        raise StoreError(str(problem)) from problem
