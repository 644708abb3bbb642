"""Stores as an earlier program has left them: on its schema, with rows of every table that it had."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

import psycopg
from harness.stores.furnished import rows

from pubqueue.stores import postgres, sqlite
from pubqueue.stores.sql.session import scripts
from pubqueue.stores.sqlite.schema import APPLICATION_ID, split_statements

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    Row = tuple[str, dict[str, Any]]

FULL: Final = '{"queueing":true,"max_items":9}'
"""The settings of one of the queues."""

MAX_ITEMS: Final = 3
"""Its number."""

LONG: Final = "bot@x/" + "".join(f"{number:x}" for number in range(900))
"""A full JID that is almost as long as the first schema of PostgreSQL could take."""

OWN: Final = {"row": "place"}
"""Columns that PostgreSQL has under another name."""


LARGE_APART: Final = 36
"""The migration of SQLite from which on payloads may be in a table of their own; what is in it is large enough for it."""


def sqlite_of(path: Path, number: int) -> None:
    """Make a file as a program with this many migrations has left it."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL").fetchall()
        connection.execute("PRAGMA foreign_keys = ON")
        for script in scripts(sqlite.__name__)[:number]:
            for statement in split_statements(script):
                connection.execute(statement)
        connection.execute("BEGIN")
        connection.execute("DELETE FROM sequence")
        for table, row in _then():
            info = connection.execute(f"PRAGMA table_info({table})").fetchall()
            known = {name for _, name, *_ in info}
            if row := {name: value for name, value in row.items() if name in known}:
                columns, marks = ", ".join(f'"{it}"' for it in row), ", ".join("?" for _ in row)
                insert = f"INSERT INTO {table} ({columns}) VALUES ({marks})"
                connection.execute(insert, tuple(row.values()))
        if number >= LARGE_APART:
            last = "seq = (SELECT max(seq) FROM item)"
            connection.execute(
                f"INSERT INTO large_payload SELECT seq, payload FROM item WHERE {last}"
            )
            connection.execute(f"UPDATE item SET payload = x'' WHERE {last}")
        connection.execute("COMMIT")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {number}")


def postgres_of(address: str, number: int) -> None:
    """Make a schema in an empty database as a program with this many migrations has left it."""
    with psycopg.connect(address) as connection:
        connection.execute("CREATE SCHEMA pubqueue")
        connection.execute("SET search_path = pubqueue")
        for script in scripts(postgres.__name__)[:number]:
            connection.execute(script.encode())
        connection.execute("UPDATE pubqueue SET schema = %s", (number,))
        connection.execute("DELETE FROM sequence")
        connection.execute("INSERT INTO writer (id, batch) VALUES ('an instance', 7)")
        connection.execute("INSERT INTO instance VALUES (3)")
        connection.execute("UPDATE writing SET batches = 70, nodes = 2")
        for table, row in _then():
            _insert(connection, table, row)
        for table in ("node", "txn", "attempt", "txn_app", "subscription"):
            connection.execute(
                f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), max(id) + 5) FROM {table}".encode()
            )


def _insert(connection: psycopg.Connection, table: str, row: dict[str, Any]) -> None:
    info = connection.execute(
        "SELECT column_name, data_type FROM information_schema.columns"
        " WHERE table_schema = 'pubqueue' AND table_name = %s",
        (table,),
    ).fetchall()
    known = {name: bool if kind == "boolean" else None for name, kind in info}
    named = {OWN.get(name, name): value for name, value in row.items()}
    values = {
        name: bool(value) if known[name] else value
        for name, value in named.items()
        if name in known
    }
    if values:
        columns, marks = ", ".join(values), ", ".join("%s" for _ in values)
        connection.execute(
            f"INSERT INTO {table} ({columns}) OVERRIDING SYSTEM VALUE VALUES ({marks})".encode(),
            tuple(values.values()),
        )


def _then() -> Iterator[Row]:
    """Yield the contents of stores, and of each table with full JIDs a row with a long one."""
    for table, row in rows():
        if table == "node" and row["id"] == MAX_ITEMS:
            row["config"] = FULL
        if table == "item" and row["state"] == "locked":
            row["holder"] = LONG
        yield table, row
        if table == "receipt":
            yield table, row | {"jid": LONG}
        elif table == "resource" and row["id"] == 2:
            yield table, {"id": 9, "jid": LONG, "account": "bot@x"}
        elif table == "subscription" and row["id"] % 10 == 0:
            own = {"id": row["id"] + 5, "subid": f"long{row['id']}"}
            yield table, row | own | {"jid": LONG, "account": "bot@x"}
