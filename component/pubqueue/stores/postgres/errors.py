"""Translates errors of PostgreSQL and of the connection to those of the store interface."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import psycopg
from psycopg import errors

from pubqueue.engine.ports import StaleError, StoreError, UnfitError
from pubqueue.stores.guarded import unfit

if TYPE_CHECKING:
    from collections.abc import Iterator

STALE: Final = (
    errors.IntegrityError,  # a constraint is also a guard
    errors.DivisionByZero,  # `queries.guarded`
    errors.SerializationFailure,
    errors.DeadlockDetected,
)

logging.getLogger("psycopg").setLevel(logging.CRITICAL)  # it also logs what it raises


def words(problem: Exception) -> StoreError:
    """Return the store error for an error of PostgreSQL, of its client or of the network."""
    match problem:
        case psycopg.Error() if isinstance(problem, STALE):
            return StaleError("constraint", text_of(problem))
        case psycopg.DataError():
            return UnfitError(text_of(problem))
        case psycopg.Error():
            return StoreError(text_of(problem))
        case _:
            return unfit(problem)


@contextmanager
def translated() -> Iterator[None]:
    """Raise errors of PostgreSQL as StoreError."""
    try:
        yield
    except psycopg.Error as problem:
        raise words(problem) from problem


def text_of(problem: psycopg.Error) -> str:
    """Return what went wrong, in one line."""
    return " ".join(str(problem).split()) or type(problem).__name__
