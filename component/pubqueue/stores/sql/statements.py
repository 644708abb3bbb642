"""Reads the .sql files: statements by name, so that all SQL stands where it can be reviewed.

What both dialects say alike stands once, in `common`, written for PostgreSQL with a few macros. A store's own file has the rest;
a statement of a common name there takes the place of the common one.
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
"""The columns of an item, in the order in which `columns.item_of` takes them; the table is called i."""

READY: Final = "state = 'queued' AND (group_name IS NULL OR turn IS NOT NULL)"
"""What is ready to be handed out, as the partial index says it, word for word."""

PLACE: Final = "coalesce(turn, seq)"
"""Where an item stands among what is ready, behind its priority."""

MACROS: Final = {"%(item)s": ITEM, "%(ready)s": READY, "%(place)s": PLACE}

FILES: Final = ("load", "page", "write", "staging", "commit", "event", "schedule", "sample")

_HEADER: Final = re.compile(r"^-- (\w+): .+$", re.MULTILINE)

_LIST: Final = re.compile(r"%\(list (\d+)\)s")


class Dialect(NamedTuple):
    """What becomes of a common statement in one dialect."""

    join: str
    """For `%(join)s`: joins two tables in the order in which they stand."""
    values: str
    """For `%(list 3)s`: what selects the values of a list that comes as JSON; the place of the list is `\\1`."""
    spelled: Callable[[str], str] = str
    """Spells what is left, the placeholders and casts of PostgreSQL."""

    def say(self, text: str) -> str:
        """Return a common statement in this dialect."""
        return self.spelled(_LIST.sub(self.values, text.replace("%(join)s", self.join)))


def statements(package: str, dialect: Dialect) -> dict[str, str]:
    """Return all statements of a store: the common ones in its dialect, and its own."""
    alike = {name: dialect.say(text) for name, text in common().items()}
    return alike | own(package)


def common() -> dict[str, str]:
    """Return the statements that both dialects say alike, as they are written."""
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
    """Return why a store cannot be used into which only a part of another one has been copied."""
    kind, _, _ = source.partition(":")
    command = "restore" if kind == "backup" else "migrate"
    return f"the copy from {source} is not complete; `pubqueue {command}` can be begun again"


def served_from(done: int, known: int) -> str:
    """Return why a store is not brought to the schema of this program now: whoever serves from it would fail, or write wrongly."""
    return (
        f"its schema is number {done}, that of this program {known}, and a process of another version serves from it;"
        " stop that first"
    )


def unlike(done: int, known: int) -> str:
    """Return why a store cannot be read as it is: another version of the program has made its schema."""
    return f"its schema is number {done}, that of this program {known}; use the version that serves from it"
