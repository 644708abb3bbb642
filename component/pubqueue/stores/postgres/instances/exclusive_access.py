"""Exclusive access to a schema: no process serves from it meanwhile.

A copy first takes an advisory lock for that purpose, and then checks whether a process has the lock of its epoch. A process
first takes its own lock, and then checks the other one. So at least one of them detects the other. A process that has just
lost its connection has no lock and still serves, so all leases must be over too. A process that comes back after that is
fenced.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from pubqueue.engine.ports import ForeignStoreError, StoreError
from pubqueue.stores.postgres.locks import GATE, LOCK, NOBODY, OF_LEASES, OVER
from pubqueue.stores.postgres.schema import copied_from, newest, version
from pubqueue.stores.sql.leases import LEASE
from pubqueue.stores.sql.statements import unfinished_copy, unlike

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg import Connection

TIMEOUT: Final = 2.0
POLL_INTERVAL: Final = 0.05
"""Seconds to wait for processes that have just ended, and between two checks."""

TAKEN: Final = "SELECT pg_try_advisory_lock($1::int, $2::int)"

FENCE: Final = "UPDATE instance SET epoch = 0, until = 'epoch'"


def see_that_it_is_nobodys(connection: Connection) -> None:
    """Check that no process has exclusive access to the store, and that it is complete and on the schema of this program.

    Raises:
        StoreError: another process copies or migrates it now.
        ForeignStoreError: it is an incomplete copy, or another version has changed its schema.

    """
    got = connection.execute(
        "SELECT pg_try_advisory_lock_shared($1::int, $2::int)", (LOCK, GATE)
    ).fetchone()
    if got is None or not got[0]:
        raise StoreError("it is being copied; serve when that is done")
    connection.execute("SELECT pg_advisory_unlock_shared($1::int, $2::int)", (LOCK, GATE))
    if (source := copied_from(connection)) is not None:
        raise ForeignStoreError(unfinished_copy(source))
    done, known = version(connection) or 0, newest()
    if done != known:
        raise ForeignStoreError(unlike(done, known))


def have_alone(connection: Connection, name: str) -> None:
    """Take exclusive access to the store, called `name` in errors, for as long as this connection lasts.

    Raises:
        StoreError: a process serves from it, or another one has exclusive access.

    """
    lock = LOCK, GATE
    _patiently(connection, TAKEN, lock, f"{name}: somebody copies it just now")
    serves = f"{name}: a process serves from it; stop it first"
    _patiently(connection, NOBODY, lock, serves)
    if (version(connection) or 0) >= OF_LEASES:
        _patiently(connection, OVER, (), serves, TIMEOUT + LEASE)
        connection.execute(FENCE)


def _patiently(
    connection: Connection,
    question: str,
    values: Sequence[object],
    sentence: str,
    patience: float = TIMEOUT,
) -> None:
    """Ask until the answer is yes: the server notices the end of a process with a short delay."""
    patient_until = time.monotonic() + patience
    while (row := connection.execute(question, values).fetchone()) is None or not row[0]:
        if time.monotonic() > patient_until:
            raise StoreError(sentence)
        time.sleep(POLL_INTERVAL)
