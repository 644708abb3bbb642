"""One transaction on SQLite."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pubqueue.stores.relational.transaction import RelationalTransaction
from pubqueue.stores.sqlite.session import Session

if TYPE_CHECKING:
    import sqlite3

    from pubqueue.app.rows import Writes
    from pubqueue.stores.relational.node_ids import NodeIds


class SqliteTransaction(RelationalTransaction):
    """Implements `pubqueue.app.ports.Transaction` on an open SQLite transaction."""

    _session: Session

    def __init__(self, connection: sqlite3.Connection, names: NodeIds, *, foreign: bool) -> None:
        super().__init__(Session(connection, names), foreign=foreign)

    def number(self, sequence: str, count: int) -> int:
        """Reserve so many numbers of a sequence and return the first."""
        self._session.check()
        return super().number(sequence, count)

    def write(self, writes: Writes) -> None:
        """Make these writes, or raise StaleError."""
        self._session.check()
        super().write(writes)
