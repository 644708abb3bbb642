"""The advisory locks of a database, which together with the leases show the writer, the serving processes, and exclusive access."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from psycopg import Connection

LOCK: Final = 0x70756271
"""`pubq`: the advisory lock of the writer, in this database; together with an epoch, that of a process."""

GATE: Final = -1
"""An epoch that no process has: for the lock of a process with exclusive access to the schema."""

OF_LEASES: Final = 12
"""The number of the first schema with leases."""

NOBODY: Final = """
    SELECT NOT EXISTS (
        SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2 AND granted
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND classid::bigint = $1 AND objid != ($2::int8 & 4294967295)::oid
    )
"""
"""Whether no process has the lock of its epoch."""

OVER: Final = "SELECT NOT EXISTS (SELECT 1 FROM instance WHERE until > clock_timestamp())"
"""Whether all leases are over: a process that has just lost its connection has no lock, and still serves."""


def nobody_serves(connection: Connection, schema: int) -> bool:
    """Block processes that begin to serve until this transaction ends; return whether none serves. `schema` is the schema's number.

    A process that begins first takes the lock of its epoch, and then checks the gate. So at least one of the two detects the other.
    """
    questions: list[tuple[str, tuple[int, ...]]] = [
        ("SELECT pg_try_advisory_xact_lock($1::int, $2::int)", (LOCK, GATE)),
        (NOBODY, (LOCK, GATE)),
    ]
    if schema >= OF_LEASES:
        questions.append((OVER, ()))
    for question, values in questions:
        row = connection.execute(question, values, prepare=False).fetchone()
        if row is None or not row[0]:
            return False
    return True
