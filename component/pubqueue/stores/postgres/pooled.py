"""Detects a pooler before PostgreSQL that changes sessions between transactions: session state is not kept then.

The locks of living processes, the settings of a session and its LISTEN would then belong to other clients. Such a pooler
returns a process number of its own. If that differs from the server's, a test shows whether two connections share a
session, or one changes its own.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Final

from psycopg import errors

from pubqueue.engine.ports import ForeignStoreError
from pubqueue.stores.postgres.connection import connected

if TYPE_CHECKING:
    from psycopg import Connection

TRIES: Final = 3
"""Attempts of the test: other clients may take a session in between."""

SENTENCE: Final = (
    "a pooler is between, which keeps no sessions (transactions or statements are what it pools):"
    " have it pool sessions, or connect to the server itself"
)


def see_that_sessions_are_kept(conninfo: str) -> None:
    """Check that a connection keeps its session.

    Raises:
        ForeignStoreError: a pooler gives it to other clients between transactions.
        UnreachableStoreError: the server cannot be connected to.

    """
    with closing(connected(conninfo)) as one:
        if one.info.backend_pid == _process(one):
            return
        with closing(connected(conninfo)) as other:
            try:
                shared = any(_share(one, other) for _ in range(TRIES))
            except errors.OperationalError as problem:
                raise ForeignStoreError(
                    SENTENCE
                ) from problem  # the pooler does not even keep transactions
            if shared:
                raise ForeignStoreError(SENTENCE)


def _share(one: Connection, other: Connection) -> bool:
    """Return whether the two connections share a session, or the session of `one` has changed."""
    before = _process(one)
    with other.transaction():
        return _process(other) == before or _process(one) != before


def _process(connection: Connection) -> int:
    row = connection.execute("SELECT pg_backend_pid()", prepare=False).fetchone()
    assert row is not None
    return int(row[0])
