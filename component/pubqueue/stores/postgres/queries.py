"""PostgreSQL's statements by name, and the types of their arrays."""

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
"""By statement for many rows, the types of its arrays, in order."""


def guarded(statement: str) -> str:
    """Return a statement that fails unless the number of changed rows is its last value.

    So the commit can be sent without waiting for the number of rows.
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
"""The statements that change rows, in the form that checks their number."""
