"""Reads the component's database from outside, without disturbing the component."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pathlib import Path

# The store keeps both counts in these rows, so nothing is counted here, however long the queue is.
LOOK = "SELECT (SELECT sum(items) FROM node), (SELECT sum(in_flight) FROM subscription)"
IDS = "SELECT id FROM item"


@dataclass(frozen=True, slots=True)
class QueueState:
    """How many items the queue has, and how many of them are locked."""

    items: int = 0
    in_flight: int = 0

    @property
    def depth(self) -> int:
        """How many items wait."""
        return self.items - self.in_flight


class Database(Protocol):
    """The database of the component; `address` is its address in the configuration."""

    @property
    def address(self) -> str:
        """The store's address."""

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        """Return the result of the query as of the last commit."""


class File:
    """A SQLite file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.address = f"sqlite:///{path}"

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        """Read without waiting: in WAL mode a reader and the writer do not block each other."""
        address = f"{self._path.as_uri()}?mode=ro"
        with closing(sqlite3.connect(address, uri=True)) as connection:
            return connection.execute(query).fetchall()


class Schema:
    """The component's schema in a PostgreSQL."""

    def __init__(self, address: str) -> None:
        self.address = address

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        """Read with the component's own role, in its schema."""
        import psycopg  # noqa: PLC0415  # needed only with PostgreSQL

        options = "-c search_path=pubqueue -c default_transaction_read_only=on"
        with psycopg.connect(self.address, options=options, application_name="demo") as connection:
            return connection.execute(query.encode()).fetchall()


def look(database: Database) -> QueueState:
    """Return the sizes as of the last commit."""
    ((items, in_flight),) = database.ask(LOOK)
    return QueueState(int(items or 0), int(in_flight or 0))


def remaining(database: Database) -> set[str]:
    """Return the ids of all items that still exist, in any state."""
    return {row[0] for row in database.ask(IDS)}
