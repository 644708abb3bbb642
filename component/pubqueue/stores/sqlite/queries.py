"""SQLite's statements by name."""

from __future__ import annotations

import re
from typing import Final

from pubqueue.stores.sql.statements import Dialect, statements

_NOT_OURS: Final = re.compile(r"\$(\d+)(?:::\w+)?|::\w+")


def spelled(text: str) -> str:
    """Return a statement of PostgreSQL with placeholders of SQLite, which needs no casts."""
    return _NOT_OURS.sub(lambda found: f"?{found[1]}" if found[1] else "", text)


DIALECT: Final = Dialect("CROSS JOIN", r"(SELECT value FROM json_each($\1))", spelled)
"""SQLite goes through tables in the order in which a CROSS JOIN has them."""

SQL: Final = statements(__package__, DIALECT)
