"""Reads the .sql files: statements by name, so that all SQL stands where it can be reviewed."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Final

from msgspec.structs import fields

from pubqueue.core.model import Item

ITEM: Final = ", ".join(field.name for field in fields(Item) if field.name != "node")
"""The columns of an item in the order of the model's fields; the node's name comes separately."""

_HEADER: Final = re.compile(r"^-- (\w+): .+$", re.MULTILINE)


def _load(file: str) -> dict[str, str]:
    text = files(__package__).joinpath(file).read_text(encoding="utf-8")
    parts = _HEADER.split(text)[1:]
    return {
        name: body.strip().removesuffix(";").replace("%(item)s", ITEM)
        for name, body in zip(parts[::2], parts[1::2], strict=True)
    }


SQL: Final = _load("queries.sql")

TXN: Final = _load("txn.sql")
"""Those of transactions."""

EVENTS: Final = _load("events.sql")
"""Those of the event log, and of those who look from outside."""
