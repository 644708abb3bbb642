"""One transaction on PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pubqueue.stores.relational.transaction import RelationalTransaction

if TYPE_CHECKING:
    from pubqueue.stores.postgres.session import Session


class PostgresTransaction(RelationalTransaction):
    """Implements `pubqueue.app.ports.Transaction` on an open PostgreSQL transaction.

    What is written is sent; that it was stale is told with the next answer, at the latest before the commit.
    """

    _session: Session

    def number(self, sequence: str, count: int) -> int:
        """Reserve so many numbers of a sequence and return the first."""
        if count:
            self._session.note()
        return super().number(sequence, count)
