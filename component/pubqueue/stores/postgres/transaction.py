"""One transaction on PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg

from pubqueue.app.ports import StaleError
from pubqueue.stores.relational.transaction import RelationalTransaction

if TYPE_CHECKING:
    from pubqueue.app.rows import Writes
    from pubqueue.stores.postgres.session import Session


class PostgresTransaction(RelationalTransaction):
    """Implements `pubqueue.app.ports.Transaction` on an open PostgreSQL transaction."""

    _session: Session

    def number(self, sequence: str, count: int) -> int:
        """Reserve so many numbers of a sequence and return the first."""
        if count:
            self._session.note()
        return super().number(sequence, count)

    def write(self, writes: Writes) -> None:
        """Make these writes, or raise StaleError."""
        try:
            super().write(writes)
            self._session.settle()
        except psycopg.IntegrityError as problem:  # a constraint is a guard as well
            raise StaleError(str(problem)) from problem
