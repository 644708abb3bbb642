"""The contents of a PostgreSQL store, counted independently with plain SQL, as `recount` does for a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.stores.recount import ITEMS, WRONG, Count, twice

if TYPE_CHECKING:
    from harness.databases.postgres import Postgres

PRAGMAS = 4
"""This many of the sentences are about SQLite's files."""


def recount_postgres(server: Postgres) -> Count:
    """Count a store to which no process writes at present."""
    with server.session() as session:
        session.execute("SET search_path = pubqueue")
        rows = session.execute(ITEMS.encode()).fetchall()
        wrong = [
            row[0]
            for query in WRONG[PRAGMAS:]
            for row in session.execute(query.encode()).fetchall()
        ]
    return Count({(node, name): state for node, name, state in rows}, (*wrong, *twice(rows)))


def events(server: Postgres) -> list[tuple[object, ...]]:
    """Return the kind and the item of every event, in their order."""
    return server.ask("SELECT kind, item FROM pubqueue.event ORDER BY seq")
