"""SQLite's statements by name."""

from __future__ import annotations

import re
from typing import Final

from pubqueue.stores.sql.statements import Dialect, statements

_NOT_OURS: Final = re.compile(r"\$(\d+)(?:::\w+)?|::\w+")


def spelled(text: str) -> str:
    """Return a statement of PostgreSQL with SQLite's placeholders, and without casts, which SQLite does not need."""
    return _NOT_OURS.sub(lambda found: f"?{found[1]}" if found[1] else "", text)


DIALECT: Final = Dialect("CROSS JOIN", r"(SELECT value FROM json_each($\1))", spelled)
"""SQLite reads the tables of a CROSS JOIN in their order."""

SQL: Final = statements(__package__, DIALECT)
