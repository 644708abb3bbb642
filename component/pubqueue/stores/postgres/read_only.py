"""Reads a schema and leaves it unchanged."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, TypeVar

from pubqueue.engine.ports import ForeignStoreError, StoreError
from pubqueue.stores import ReadOnlyResult, older
from pubqueue.stores.postgres import schema
from pubqueue.stores.postgres.connection import connected, see_that_sessions_are_kept
from pubqueue.stores.postgres.store import (
    READING,
    PostgresSession,
    PostgresStore,
)
from pubqueue.stores.sql.session import NodeIds, unfinished_copy
from pubqueue.stores.sql.transaction import SqlTransaction

if TYPE_CHECKING:
    from collections.abc import Callable

    from psycopg import Connection

    from pubqueue.engine.ports import Store, Transaction

T = TypeVar("T")


def run_read_only(store: Store, job: Callable[[Transaction], T]) -> ReadOnlyResult[T]:
    """Run a job on the current contents of the schema; see `pubqueue.stores.run_read_only`."""
    assert isinstance(store, PostgresStore)
    try:
        with schema.translated(), closing(connected(store.conninfo)) as connection:
            see_that_sessions_are_kept(store.conninfo)
            schema.configure(connection)
            found = _run(connection, job)
            return ReadOnlyResult(found.found, [*found.says, *schema.doubts(connection)])
    except StoreError as problem:
        raise schema.not_opened(problem) from problem


def _run(connection: Connection, job: Callable[[Transaction], T]) -> ReadOnlyResult[T]:
    done, known = schema.version(connection), schema.newest()
    if done is None:
        _see_that_it_can_be_made(connection)
        return ReadOnlyResult(
            None,
            [
                f"the schema {schema.SCHEMA} does not exist yet; the service creates it when it starts"
            ],
        )
    if (source := schema.copied_from(connection)) is not None:
        raise ForeignStoreError(unfinished_copy(source))
    if done > known:
        sentence = f"its schema is number {done}, this program knows {known}; use a newer one"
        raise ForeignStoreError(sentence)
    if done < known:
        return ReadOnlyResult(None, [older(done, known)])
    connection.execute(READING, prepare=False)
    try:
        session = PostgresSession(connection, NodeIds(), None)
        return ReadOnlyResult(job(SqlTransaction(session, schema.words, foreign=True)), [])
    finally:
        connection.execute("ROLLBACK", prepare=False)


def _see_that_it_can_be_made(connection: Connection) -> None:
    """Raise the error of the service's start if the role may not make the schema, or tables in an existing one."""
    row = connection.execute(
        "SELECT CASE WHEN to_regnamespace($1) IS NULL THEN"
        " has_database_privilege(current_database(), 'CREATE')"
        " ELSE has_schema_privilege(to_regnamespace($1)::oid, 'CREATE') END,"
        " EXISTS (SELECT 1 FROM pg_class WHERE relnamespace = to_regnamespace($1)), current_user",
        (schema.SCHEMA,),
    ).fetchone()
    assert row is not None
    may, filled, role = row
    if filled:
        raise ForeignStoreError(f"the schema {schema.SCHEMA} belongs to another program")
    if not may:
        raise ForeignStoreError(
            f"the schema {schema.SCHEMA} cannot be made: {role} may not create it"
        )
