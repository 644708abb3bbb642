"""The PostgreSQL store: a schema of a database, with one writer at a time among all processes and concurrent readers."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from urllib.parse import SplitResult

    from pubqueue.engine.ports import Store

__all__ = ["store_at"]


def store_at(address: SplitResult) -> Store:
    """Return the store in the database that the address names.

    Raises:
        ValueError: it is not the address of a database, or psycopg is not installed.

    """
    if not address.path.startswith("/") or address.fragment:
        raise ValueError("store must be postgresql://role@host/database, special signs as %xx")
    query = f"?{address.query}" if address.query else ""
    try:
        module = import_module("pubqueue.stores.postgres.store")
    except ImportError:
        raise ValueError("store postgresql:// needs psycopg: install pubqueue[postgres]") from None
    store: Store = module.PostgresStore(f"postgresql://{address.netloc}{address.path}{query}")
    return store
