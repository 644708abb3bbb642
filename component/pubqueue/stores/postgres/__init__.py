"""The PostgreSQL store: a schema of a database, one writer at a time among all processes, readers beside it."""

from __future__ import annotations

from pubqueue.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
