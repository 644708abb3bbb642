"""What the component's store holds, read beside it."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING, Final

from harness.patience import wait_until

if TYPE_CHECKING:
    from pathlib import Path

TIMEOUT: Final = 60.0
NUMBER: Final = re.compile(rb"""\bn=["'](\d+)["']""")
# What a transaction may leave before it is swept up, a slice at a time.
LEFT: Final = "SELECT (SELECT count(*) FROM staged) + (SELECT count(*) FROM attempt)"
RECORDS: Final = "SELECT items FROM txn WHERE committed IS NOT NULL ORDER BY id"


def visible(store: Path) -> Counter[int]:
    """Count how often each number is among the items' payloads (`<job n='17'/>`)."""
    found = [NUMBER.search(payload) for (payload,) in _ask(store, "SELECT payload FROM item")]
    return Counter(int(match[1]) for match in found if match)


def numbers(rows: int) -> Counter[int]:
    """Return what `visible` finds when each of so many rows is there once."""
    return Counter(range(rows))


def staged(store: Path) -> int:
    """Return how many items wait for a commit."""
    return _ask(store, "SELECT count(*) FROM staged")[0][0]


def items(store: Path) -> int:
    """Return how many items are in queues."""
    return _ask(store, "SELECT count(*) FROM item")[0][0]


def records(store: Path) -> list[int]:
    """Return how many items each transaction had, in the order of their commits."""
    return [items for (items,) in _ask(store, RECORDS)]


def left(store: Path) -> int:
    """Return how much of transactions that are over is still to be swept up."""
    return _ask(store, LEFT)[0][0]


def assert_once(store: Path, rows: int, *, batches: int = 1) -> None:
    """Each of so many rows is visible once, none is staged, and each batch has its record."""
    assert visible(store) == numbers(rows)
    committed = records(store)
    assert (len(committed), sum(committed)) == (batches, rows)
    wait_until(lambda: not left(store), within=TIMEOUT, why="staged items are left behind")
    assert _ask(store, "SELECT account FROM staged_usage WHERE items OR bytes") == []


def _ask(store: Path, query: str) -> list[tuple[int]]:
    with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as connection:
        return connection.execute(query).fetchall()
