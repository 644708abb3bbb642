"""One transaction on SQLite: its operations, and how it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from pubqueue.stores.guarded import Guarded
from pubqueue.stores.sql.node_ids import NodeIds
from pubqueue.stores.sql.transaction import RelationalTransaction
from pubqueue.stores.sqlite.errors import translated, words
from pubqueue.stores.sqlite.session import SqliteSession

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from pubqueue.engine.ports import Transaction
    from pubqueue.engine.rows import Writes

T = TypeVar("T")


class SqliteTransaction(RelationalTransaction):
    """Implements `pubqueue.engine.ports.Transaction` on an open SQLite transaction."""

    _session: SqliteSession

    def __init__(self, connection: sqlite3.Connection, names: NodeIds, *, foreign: bool) -> None:
        super().__init__(SqliteSession(connection, names), foreign=foreign)

    def number(self, sequence: str, count: int) -> int:
        """Reserve `count` numbers of a sequence and return the first."""
        self._session.check()
        return super().number(sequence, count)

    def write(self, writes: Writes) -> None:
        """Make these writes; raise StaleError if a row is not what its write expects."""
        self._session.check()
        super().write(writes)


def commit(
    connection: sqlite3.Connection,
    names: NodeIds,
    job: Callable[[Transaction], T],
    *,
    foreign: bool,
) -> T:
    """Run the job in the open transaction, and commit it; if this raises, the transaction stays open."""
    transaction = Guarded(SqliteTransaction(connection, names, foreign=foreign), words)
    result = job(transaction)
    transaction.check()
    connection.execute("COMMIT")
    return result


def look(connection: sqlite3.Connection, job: Callable[[Transaction], T]) -> T:
    """Run a job on one snapshot; in WAL mode it neither waits for the writer nor makes it wait."""
    with translated():
        try:
            roll_back(connection)
            connection.execute("BEGIN")
            transaction = Guarded(SqliteTransaction(connection, NodeIds(), foreign=True), words)
            result = job(transaction)
            transaction.check()
            return result
        finally:
            roll_back(connection)


def roll_back(connection: sqlite3.Connection) -> None:
    """Roll back the open transaction, if there is one."""
    if connection.in_transaction:
        connection.execute("ROLLBACK")
