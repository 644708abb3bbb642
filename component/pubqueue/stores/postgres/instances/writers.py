"""The rows of `writer`: of each process its last batch. One that is gone for long is not asked for any more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.stores.postgres.locks import LOCK

if TYPE_CHECKING:
    from psycopg import Connection

GONE: Final = 30
"""Days without a batch, after which a process that began one has long learnt what became of it."""


def sweep(connection: Connection) -> None:
    """Remove the rows of processes that are long gone; not now, if somebody writes."""
    with connection.transaction():
        taken = connection.execute("SELECT pg_try_advisory_xact_lock($1)", (LOCK,)).fetchone()
        if taken is not None and taken[0]:
            connection.execute(
                "DELETE FROM writer WHERE seen < now() - make_interval(days => $1::integer)",
                (GONE,),
            )
