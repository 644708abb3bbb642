"""Prepares a connection: sets how it writes, checks whose schema it is, and migrates it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from psycopg import errors

from pubqueue.engine.ports import ForeignStoreError, UnreachableStoreError
from pubqueue.stores.postgres.arrays import register
from pubqueue.stores.postgres.locks import LOCK, nobody_serves
from pubqueue.stores.sql.statements import scripts, served_from, unfinished_copy

if TYPE_CHECKING:
    from psycopg import Connection

SCHEMA: Final = "pubqueue"

LOCK_TIMEOUT: Final = 5.0
"""Seconds to wait while another process holds a lock."""

SETTINGS: Final = {
    "search_path": SCHEMA,
    "synchronous_commit": "on",
    "tcp_keepalives_idle": "2",
    "tcp_keepalives_interval": "1",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "5000",
    "client_min_messages": "warning",
    "join_collapse_limit": "1",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_sort": "off",
    "jit": "off",
    "max_parallel_workers_per_gather": "0",
    "plan_cache_mode": "force_generic_plan",
}
"""The connection of a machine that is gone ends in five seconds, and its locks with it.

A commit returns when it is on disk, and warns if it gave up waiting for a standby. Every statement is written for one plan:
by the indexes, in the order in which it is written. The planner's statistics of a queue are never right, because it is long
at one time and empty at another."""


def prepare(connection: Connection, *, half_copied: bool = False) -> None:
    """Prepare the connection for use, on the newest schema. Only a copy uses a store that is `half_copied`.

    Raises:
        ForeignStoreError: the schema is not ours, is newer than this program, or cannot be made.
        UnreachableStoreError: it has to be migrated, and a process of an older version serves from it.

    """
    configure(connection)
    if not half_copied and (source := copied_from(connection)) is not None:
        raise ForeignStoreError(unfinished_copy(source))
    steps = scripts(__package__)
    if version(connection) != len(steps):
        _migrate(connection, steps)


def configure(connection: Connection) -> None:
    """Prepare the connection for reading a schema."""
    register(connection.adapters)
    settings = SETTINGS | {"lock_timeout": f"{round(LOCK_TIMEOUT * 1000)}ms"}
    connection.execute(
        "; ".join(f"SET {name} = '{value}'" for name, value in settings.items()), prepare=False
    )


def newest() -> int:
    """Return the number of this program's schema."""
    return len(scripts(__package__))


def version(connection: Connection) -> int | None:
    """Return the number of the schema, None if there is none."""
    try:
        with connection.transaction():
            found = connection.execute("SELECT program, schema FROM pubqueue", prepare=False)
            row = found.fetchone()
    except (errors.UndefinedTable, errors.InvalidSchemaName):
        return None
    except (errors.UndefinedColumn, errors.InsufficientPrivilege) as problem:
        raise ForeignStoreError(f"the schema {SCHEMA} belongs to another program") from problem
    if row is None or row[0] != "pubqueue":
        raise ForeignStoreError(f"the schema {SCHEMA} belongs to another program")
    return int(row[1])


def copied_from(connection: Connection) -> str | None:
    """Return the source of the unfinished copy in this store, None if the store is complete."""
    looked = connection.execute("SELECT to_regclass('copying') IS NULL", prepare=False).fetchone()
    if looked is None or looked[0]:
        return None
    row = connection.execute("SELECT source FROM copying", prepare=False).fetchone()
    return "" if row is None else str(row[0])


def _migrate(connection: Connection, steps: list[str]) -> None:
    """Run the migrations that the schema does not have yet, in one transaction; another process waits for it."""
    try:
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock($1)", (LOCK,))
            done = version(connection)
            if done is None:
                _make_schema(connection)
            elif done > len(steps):
                raise ForeignStoreError(
                    f"its schema is number {done}, this program knows {len(steps)}; use a newer one"
                )
            elif done < len(steps) and not nobody_serves(connection, done):
                raise UnreachableStoreError(served_from(done, len(steps)))
            for script in steps[done or 0 :]:
                connection.execute(script.encode(), prepare=False)
            connection.execute("UPDATE pubqueue SET schema = $1", (len(steps),))
    except errors.InsufficientPrivilege as problem:
        raise ForeignStoreError(f"the schema {SCHEMA} cannot be made: {problem}") from problem


def _make_schema(connection: Connection) -> None:
    """Make the schema unless it exists; refuse one that another program has filled."""
    row = connection.execute(
        "SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = $1), EXISTS ("
        "SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1)",
        (SCHEMA,),
    ).fetchone()
    there, filled = row or (False, False)
    if filled:
        raise ForeignStoreError(f"the schema {SCHEMA} belongs to another program")
    if not there:
        connection.execute(f"CREATE SCHEMA {SCHEMA}", prepare=False)
