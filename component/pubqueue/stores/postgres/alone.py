"""Having a schema for oneself: nobody serves from it meanwhile.

Whoever copies a store takes an advisory lock of that purpose first, and then looks whether a process has the lock of its
number; a process takes its number first, and then looks whether somebody has that lock. So one of them sees the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.app.ports import StoreError
from pubqueue.stores.postgres.schema import LOCK, copied_from

if TYPE_CHECKING:
    from psycopg import Connection

GATE: Final = -1
"""A number that no process has."""


def is_somebodys(connection: Connection) -> bool:
    """Say whether somebody has this store for themselves, or had it and has left half a copy."""
    got = connection.execute(
        "SELECT pg_try_advisory_lock_shared($1::int, $2::int)", (LOCK, GATE)
    ).fetchone()
    if got is None or not got[0]:
        return True
    connection.execute("SELECT pg_advisory_unlock_shared($1::int, $2::int)", (LOCK, GATE))
    return copied_from(connection) is not None


def have_alone(connection: Connection, name: str) -> None:
    """Have the store, which is called so, for oneself, as long as this connection lasts.

    Raises:
        StoreError: a process serves from it, or somebody else has it for themselves.

    """
    got = connection.execute(
        "SELECT pg_try_advisory_lock($1::int, $2::int)", (LOCK, GATE)
    ).fetchone()
    if got is None or not got[0]:
        raise StoreError(f"{name}: somebody copies it just now")
    numbers = connection.execute(
        "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2 AND granted"
        " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        " AND classid::bigint = $1 AND objid != ($2::int8 & 4294967295)::oid LIMIT 1",
        (LOCK, GATE),
    )
    if numbers.fetchone() is not None:
        raise StoreError(f"{name}: a process serves from it; stop it first")
