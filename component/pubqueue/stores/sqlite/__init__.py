"""The SQLite store: one file with one writer and concurrent readers, or the memory of one process (`in_memory`)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from pubqueue.stores.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from urllib.parse import SplitResult

__all__ = ["SqliteStore", "file_in", "store_at"]


def store_at(address: SplitResult) -> SqliteStore:
    """Return the store in the file that the address names.

    Raises:
        ValueError: the address does not name a file.

    """
    if not address.path or address.netloc or address.query or address.fragment:
        raise ValueError(f"store must be sqlite:///path/to/file, not {address.geturl()!r}")
    return SqliteStore(file_in(address))


def file_in(address: SplitResult) -> Path:
    """Return the file that the address names."""
    path = unquote(address.path)
    # sqlite:////path is an absolute path after sqlite:///
    return Path(path[1:] if path.startswith("//") else path)
