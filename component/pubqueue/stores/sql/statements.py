"""Reads statements by name from the .sql files, where all SQL can be reviewed.

Statements that are the same in both dialects are in `common`, written for PostgreSQL with a few macros. A store's own file has
the others; a statement with a common name there overrides the common one.
"""

from __future__ import annotations

import re
from importlib.resources import files
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

_ITEM: Final = """
    node_id seq id state publisher published priority due expires acquired failed released holder deadline token
    avoid aside taken headers death dead_at dead_reason dead_from last_holder txn_app txn_version group_name turn
    failure size
"""

ITEM: Final = ", ".join(f"i.{column}" for column in _ITEM.split())
"""The columns of an item, in the order in which `columns.item_of` takes them; the table's alias is i."""

DONE: Final = """
    d.node_id, d.seq, d.id, 'done', d.publisher, d.published, d.priority, NULL, d.expires, 0, 0, 0, NULL, NULL, d.token,
    NULL, 0, d.done_at, d.headers, NULL, NULL, NULL, NULL, NULL, d.txn_app, d.txn_version, d.group_name, NULL,
    NULL, d.size
"""
"""The same of an item that is done, which has no other state; the table's alias is d."""

READY: Final = "state = 'queued' AND (group_name IS NULL OR turn IS NOT NULL)"
"""The condition for ready items, word for word as in the partial index."""

PLACE: Final = "coalesce(turn, seq)"
"""The position of an item among the ready items of its priority."""

MACROS: Final = {"%(item)s": ITEM, "%(done)s": DONE.strip(), "%(ready)s": READY, "%(place)s": PLACE}

FILES: Final = ("load", "page", "write", "staging", "commit", "event", "schedule", "sample")

_HEADER: Final = re.compile(r"^-- (\w+): .+$", re.MULTILINE)

_LIST: Final = re.compile(r"%\(list (\d+)\)s")


class Dialect(NamedTuple):
    """How a common statement is written in one dialect."""

    join: str
    """For `%(join)s`: joins two tables in the order in which they are written."""
    values: str
    """For `%(list 3)s`: selects the values of a list in JSON; `\\1` is the number of the list's placeholder."""
    spelled: Callable[[str], str] = str
    """Converts the rest: the placeholders and casts of PostgreSQL."""

    def write(self, text: str) -> str:
        """Return a common statement in this dialect."""
        return self.spelled(_LIST.sub(self.values, text.replace("%(join)s", self.join)))


def statements(package: str, dialect: Dialect) -> dict[str, str]:
    """Return all statements of a store: the common ones in its dialect, and its own."""
    alike = {name: dialect.write(text) for name, text in common().items()}
    return alike | own(package)


def common() -> dict[str, str]:
    """Return the common statements, as they are written."""
    return _load(__package__, "common/")


def own(package: str) -> dict[str, str]:
    """Return the statements of one store alone."""
    return _load(package, "")


def _load(package: str, folder: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for file in FILES:
        entry = files(package).joinpath(f"{folder}{file}.sql")
        if entry.is_file():
            found |= _cut(entry.read_text(encoding="utf-8"))
    return found


def _cut(text: str) -> dict[str, str]:
    parts = _HEADER.split(text)[1:]
    return {
        name: _expanded(body.strip().removesuffix(";"))
        for name, body in zip(parts[::2], parts[1::2], strict=True)
    }


def _expanded(body: str) -> str:
    for macro, text in MACROS.items():
        body = body.replace(macro, text)
    return body


def scripts(package: str) -> list[str]:
    """Return the scripts of all migrations of a store, in order."""
    entries = files(package).joinpath("migrations").iterdir()
    found = sorted((entry.name, entry) for entry in entries if entry.name.endswith(".sql"))
    return [entry.read_text(encoding="utf-8") for _, entry in found]


def unfinished_copy(source: str) -> str:
    """Return the reason why a store with an unfinished copy of another one cannot be used."""
    kind, _, _ = source.partition(":")
    command = "restore" if kind == "backup" else "migrate"
    return f"the copy from {source} is not complete; `pubqueue {command}` can be begun again"


def served_from(done: int, known: int) -> str:
    """Return the reason why a store is not migrated now: a process that serves from it would fail, or write wrongly."""
    return (
        f"its schema is number {done}, that of this program {known}, and a process of another version serves from it;"
        " stop that first"
    )


def unlike(done: int, known: int) -> str:
    """Return the reason why a store cannot be read as it is: another version of the program has made its schema."""
    return f"its schema is number {done}, that of this program {known}; use the version that serves from it"
