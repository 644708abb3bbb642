"""PostgreSQL's statements by name, and which of their values are arrays of what."""

from __future__ import annotations

import re
from typing import Final

from pubqueue.stores.relational.statements import statements

SQL: Final = statements(__package__)

_ARRAY: Final = re.compile(r"\$(\d+)::(\w+)\[\]")

ARRAYS: Final = {
    name: tuple(kind for _, kind in sorted(set(found), key=lambda one: int(one[0])))
    for name, text in SQL.items()
    if (found := _ARRAY.findall(text))
}
"""Of a statement for many rows the types of its arrays, in their order."""
