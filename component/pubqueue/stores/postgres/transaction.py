"""One transaction on PostgreSQL."""

from __future__ import annotations

from pubqueue.stores.sql.transaction import RelationalTransaction


class PostgresTransaction(RelationalTransaction):
    """Implements `pubqueue.engine.ports.Transaction` on an open PostgreSQL transaction.

    Writes are sent without waiting. A stale write is reported with the next answer, at the latest before the commit.
    """
