"""Reads the .sql files: statements by name, so that all SQL stands where it can be reviewed."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Final

_ITEM: Final = """
    node_id seq id state publisher published priority due expires acquired failed released holder deadline token
    avoid aside taken headers death dead_at dead_reason dead_from last_holder txn_app txn_version group_name turn
    failure
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


def statements(package: str) -> dict[str, str]:
    """Return all statements of a store."""
    return {name: text for file in FILES for name, text in _load(package, file).items()}


def _load(package: str, file: str) -> dict[str, str]:
    text = files(package).joinpath(f"{file}.sql").read_text(encoding="utf-8")
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


def half_copied(source: str) -> str:
    """Return why a store cannot be used into which only a part of another one has been copied."""
    kind, _, _ = source.partition(":")
    command = "restore" if kind == "backup" else "migrate"
    return f"the copy from {source} is not complete; `pubqueue {command}` can be begun again"


def unlike(done: int, known: int) -> str:
    """Return why a store cannot be read as it is: another version of the program has made its schema."""
    return f"its schema is number {done}, that of this program {known}; use the version that serves from it"
