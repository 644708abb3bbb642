"""The advisory locks of a database, and what they say with the leases: who writes, who serves, who has the schema for himself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from psycopg import Connection

LOCK: Final = 0x70756271
"""`pubq`: the advisory lock of whoever writes, in this database; with an epoch beside, that of a process."""

GATE: Final = -1
"""An epoch that no process has: the lock of whoever has the schema alone."""

OF_LEASES: Final = 12
"""The number of the schema from which on there are leases."""

NOBODY: Final = """
    SELECT NOT EXISTS (
        SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2 AND granted
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND classid::bigint = $1 AND objid != ($2::int8 & 4294967295)::oid
    )
"""
"""Whether no process has the lock of its epoch."""

OVER: Final = "SELECT NOT EXISTS (SELECT 1 FROM instance WHERE until > clock_timestamp())"
"""Whether all leases are over: one that has just lost its connection has no lock, and serves all the same."""


def nobody_serves(connection: Connection, schema: int) -> bool:
    """Keep everybody from beginning to serve until this transaction ends, and say whether nobody does; of which number the schema is.

    Whoever begins takes the lock of their epoch first, and then looks at the gate: so one of the two sees the other.
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
