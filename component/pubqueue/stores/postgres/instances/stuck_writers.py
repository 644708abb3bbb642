"""A process that hangs in the middle of a batch keeps the lock of whoever writes: those who wait for it cut it off.

The server cannot know by itself. Statements are sent without waiting for answers, and between two of them its limits for
idle transactions and for statements do not run. But it notes when it was last told anything on a connection.
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
"""Seconds without a word, to a server that waits for one, after which a process hangs; patience with its lock is longer."""

CUT: Final = """
    SELECT pg_terminate_backend(a.pid, 5000) FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
    WHERE l.locktype = 'advisory' AND l.granted AND l.classid = 0 AND l.objid = $1::oid AND l.objsubid = 1
        AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
        AND a.usename = current_user AND a.application_name = current_setting('application_name')
        AND a.wait_event_type = 'Client' AND a.query_start < clock_timestamp() - make_interval(secs => $2::float8)
"""
"""Only a process like this one, by role and name: somebody's psql is left alone, and other roles cannot be ended."""


@contextmanager
def cutting_off(connection: Connection) -> Iterator[None]:
    """See to it that who waits in vain for the lock does not do so again."""
    try:
        yield
    except LockNotAvailable:
        cut_off(connection)
        raise


def cut_off(connection: Connection) -> bool:
    """End the connection of the process that holds the lock and hangs; say whether there was one.

    Its batch is undone. When it goes on it finds out, as after any other loss of its connection.
    """
    found = connection.execute(CUT, (LOCK, HANGS)).fetchall()
    if found:
        log.warning("store.writer_hung", seconds=HANGS)
    return bool(found)
