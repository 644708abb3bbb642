"""Look into the component's database from outside, without disturbing it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

# The store keeps both counts in these rows: nothing is counted here, however long the queue is.
LOOK = "SELECT (SELECT sum(items) FROM node), (SELECT sum(in_flight) FROM subscription)"
IDS = "SELECT id FROM item"


@dataclass(frozen=True, slots=True)
class QueueState:
    """How many items the queue has, and how many of them a worker holds."""

    items: int = 0
    in_flight: int = 0

    @property
    def depth(self) -> int:
        """How many wait."""
        return self.items - self.in_flight


def look(database: Path) -> QueueState:
    """Return the sizes as of the last commit."""
    with closing(_open(database)) as connection:
        items, in_flight = connection.execute(LOOK).fetchone()
    return QueueState(items or 0, in_flight or 0)


def remaining(database: Path) -> set[str]:
    """Return the ids of all items that are still there, in whatever state."""
    with closing(_open(database)) as connection:
        return {row[0] for row in connection.execute(IDS)}


def _open(database: Path) -> sqlite3.Connection:
    # read-only, and no wait for anybody: in WAL mode a reader and the writer do not meet
    return sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)
