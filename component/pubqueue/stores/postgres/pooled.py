"""A pooler before PostgreSQL that gives its sessions away between transactions: then nothing holds that a session keeps.

Locks that say who lives, the settings of a session and what it listens to would be some other client's. Such a pooler tells
a number of its own for the process at the other end. Where it differs from the one that the server tells, it is tried
whether two connections share a session, or one changes its own.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Final

from psycopg import errors

from pubqueue.app.store.ports import ForeignStoreError
from pubqueue.stores.postgres.connection import connected

if TYPE_CHECKING:
    from psycopg import Connection

TRIES: Final = 3
"""Others may take a session in between."""

SENTENCE: Final = (
    "a pooler is between, which keeps no sessions (transactions or statements are what it pools):"
    " have it pool sessions, or connect to the server itself"
)


def see_that_sessions_are_kept(conninfo: str) -> None:
    """See that a connection keeps its session.

    Raises:
        ForeignStoreError: a pooler gives it to others between transactions.
        UnreachableStoreError: nobody lets us connect.

    """
    with closing(connected(conninfo)) as one:
        if one.info.backend_pid == _process(one):
            return
        with closing(connected(conninfo)) as other:
            try:
                shared = any(_share(one, other) for _ in range(TRIES))
            except errors.OperationalError as problem:
                raise ForeignStoreError(SENTENCE) from problem  # it has no transactions at all
            if shared:
                raise ForeignStoreError(SENTENCE)


def _share(one: Connection, other: Connection) -> bool:
    """Say whether the session of one was the other's meanwhile, or has become another one."""
    before = _process(one)
    with other.transaction():
        return _process(other) == before or _process(one) != before


def _process(connection: Connection) -> int:
    row = connection.execute("SELECT pg_backend_pid()", prepare=False).fetchone()
    assert row is not None
    return int(row[0])
