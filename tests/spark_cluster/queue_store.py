"""What the component's store holds, read beside it."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def visible(store: Path) -> Counter[int]:
    """Count how often each number is among the items' payloads (`<job n='17'/>`)."""
    with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as connection:
        payloads = [payload for (payload,) in connection.execute("SELECT payload FROM item")]
    found = [re.search(rb"""\bn=["'](\d+)["']""", payload) for payload in payloads]
    return Counter(int(match[1]) for match in found if match)


def numbers(rows: int) -> Counter[int]:
    """Return what `visible` finds when each of so many rows is there once."""
    return Counter(range(rows))
