"""One transaction on PostgreSQL."""

from __future__ import annotations

from pubqueue.stores.sql.transaction import RelationalTransaction


class PostgresTransaction(RelationalTransaction):
    """Implements `pubqueue.app.store.ports.Transaction` on an open PostgreSQL transaction.

    What is written is sent; that it was stale is told with the next answer, at the latest before the commit.
    """
