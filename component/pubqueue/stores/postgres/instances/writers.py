"""The rows of `writer`: the last batch of each process. Rows of processes that are long gone are not needed any more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.stores.postgres.locks import LOCK

if TYPE_CHECKING:
    from psycopg import Connection

GONE: Final = 30
"""Days without a batch after which a row is removed: its process has long found out whether that batch was committed."""


def sweep(connection: Connection) -> None:
    """Remove the rows of processes that are long gone, unless another process writes now."""
    with connection.transaction():
        taken = connection.execute("SELECT pg_try_advisory_xact_lock($1)", (LOCK,)).fetchone()
        if taken is not None and taken[0]:
            connection.execute(
                "DELETE FROM writer WHERE seen < now() - make_interval(days => $1::integer)",
                (GONE,),
            )
