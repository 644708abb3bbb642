"""SQLite's statements by name."""

from __future__ import annotations

from typing import Final

from pubqueue.stores.relational.statements import statements

SQL: Final = statements(__package__)
