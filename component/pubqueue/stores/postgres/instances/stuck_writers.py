"""A process that hangs within a batch keeps the writer's lock: the processes that wait for it end its connection.

The server cannot detect that by itself. Statements are sent without waiting for answers, and between two of them its limits
for idle transactions and for statements do not run. But it records when it last received something on a connection.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import structlog
from psycopg.errors import LockNotAvailable

from pubqueue.stores.postgres.locks import LOCK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from psycopg import Connection

log = structlog.get_logger(__name__)

HANGS: Final = 4.0
"""Seconds of silence while the server waits for a statement after which a process counts as hanging. Waits for its lock are longer."""

CUT: Final = """
    SELECT pg_terminate_backend(a.pid, 5000) FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
    WHERE l.locktype = 'advisory' AND l.granted AND l.classid = 0 AND l.objid = $1::oid AND l.objsubid = 1
        AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
        AND a.usename = current_user AND a.application_name = current_setting('application_name')
        AND a.wait_event_type = 'Client' AND a.query_start < clock_timestamp() - make_interval(secs => $2::float8)
"""
"""It ends only a process like this one, by role and name: a psql is left alone, and other roles cannot be ended."""


@contextmanager
def cutting_off(connection: Connection) -> Iterator[None]:
    """If a wait for the lock in the body fails, end the connection of a process that hangs with it."""
    try:
        yield
    except LockNotAvailable:
        cut_off(connection)
        raise


def cut_off(connection: Connection) -> bool:
    """End the connection of the process that holds the lock and hangs; return whether there was one.

    Its batch is rolled back. When it continues, it detects that as any other loss of its connection.
    """
    found = connection.execute(CUT, (LOCK, HANGS)).fetchall()
    if found:
        log.warning("store.writer_hung", seconds=HANGS)
    return bool(found)
