"""The embedded store: one SQLite file in WAL mode, every commit synced to disk."""

from pubqueue.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
