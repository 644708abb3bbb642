"""Makes the tables of a new SQLite store at once, as all migrations leave them: to run these takes 80 ms of each test that has a store."""

from __future__ import annotations

import sqlite3
from functools import cache
from typing import TYPE_CHECKING, Final

from pubqueue.stores.sqlite import schema

if TYPE_CHECKING:
    from pathlib import Path

by_migrations: Final = schema.migrate
"""What a service does."""


def at_once(
    connection: sqlite3.Connection, path: Path | str, application: int = schema.APPLICATION_ID
) -> None:
    """Do what `by_migrations` does. A file that has nothing gets, in one transaction, what a file has after all migrations."""
    if not schema.schema_number(connection):
        connection.execute("BEGIN IMMEDIATE")  # a second process waits here, and then looks again
        if schema.schema_number(connection) == 0 == _size(connection):
            for statement in _statements():
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {application}")
        connection.execute("COMMIT")
    by_migrations(connection, path, application)


def _size(connection: sqlite3.Connection) -> int:
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    return int(tables)


@cache
def _statements() -> tuple[str, ...]:
    """Return the statements that make the tables, with the rows that migrations write, their indexes and triggers."""
    made = sqlite3.connect(":memory:", isolation_level=None)
    by_migrations(made, ":memory:")
    named = "SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite^_%' ESCAPE '^'"
    tables = made.execute(f"{named} AND type = 'table'").fetchall()
    rows = [
        f"INSERT INTO {name} VALUES ({', '.join(row)})"
        for name, _ in tables
        for row in made.execute(f"SELECT {_quoted(made, name)} FROM {name}")
    ]
    rest = made.execute(f"{named} AND type <> 'table'").fetchall()
    number = schema.schema_number(made)
    made.close()
    return (
        *(statement for _, statement in tables),
        *rows,
        *(statement for _, statement in rest),
        f"PRAGMA user_version = {number}",
    )


def _quoted(connection: sqlite3.Connection, table: str) -> str:
    """Return the columns of a table, as literals."""
    columns = connection.execute(f"SELECT name FROM pragma_table_info('{table}')")
    return ", ".join(f"quote({name})" for (name,) in columns)
