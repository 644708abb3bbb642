"""What PostgreSQL or the way to it refuses, in the words of the seam."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import psycopg
from psycopg import errors

from pubqueue.app.ports import StaleError, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator

STALE: Final = (
    errors.IntegrityError,  # a constraint is a guard as well
    errors.DivisionByZero,  # `queries.guarded`
    errors.SerializationFailure,
    errors.DeadlockDetected,
)

logging.getLogger("psycopg").setLevel(logging.CRITICAL)  # it warns of what it raises as well


@contextmanager
def translated() -> Iterator[None]:
    """Tell what is refused as a StaleError or a StoreError."""
    try:
        yield
    except STALE as problem:
        raise StaleError(said(problem)) from problem
    except psycopg.Error as problem:
        raise StoreError(said(problem)) from problem


def said(problem: psycopg.Error) -> str:
    """Return what went wrong, in one line."""
    return " ".join(str(problem).split()) or type(problem).__name__
