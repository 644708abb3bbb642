"""PostgreSQL's statements by name, and which of their values are arrays of what."""

from __future__ import annotations

import re
from typing import Final

from pubqueue.stores.sql.statements import Dialect, statements

DIALECT: Final = Dialect("JOIN", r"(SELECT json_array_elements_text($\1::json))")

SQL: Final = statements(__package__, DIALECT)

_ARRAY: Final = re.compile(r"\$(\d+)::(\w+)\[\]")

ARRAYS: Final = {
    name: tuple(kind for _, kind in sorted(set(found), key=lambda one: int(one[0])))
    for name, text in SQL.items()
    if (found := _ARRAY.findall(text))
}
"""Of a statement for many rows the types of its arrays, in their order."""


def guarded(statement: str) -> str:
    """Return a statement that fails unless it changes as many rows as its last value says.

    So nobody has to wait for the number of rows before the commit is sent.
    """
    last = 1 + max((int(number) for number in re.findall(r"\$(\d+)", statement)), default=0)
    return (
        f"WITH done AS ({statement} RETURNING 1) SELECT 1 / (count(*) = ${last})::integer FROM done"  # noqa: S608  # ours
    )


GUARDED: Final = {
    name: guarded(text)
    for name, text in SQL.items()
    if re.match(r"(--.*\n)*(INSERT|UPDATE|DELETE)", text) and "RETURNING" not in text
}
"""What changes rows, for where it matters how many."""
