"""The store in memory: for tests, trials and the demo. What it keeps is gone with the process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pubqueue.stores.memory.store import MemoryStore

if TYPE_CHECKING:
    from urllib.parse import SplitResult

__all__ = ["MemoryStore", "store_at"]


def store_at(address: SplitResult) -> MemoryStore:
    """Return a new store, which is empty.

    Raises:
        ValueError: the address says more than `memory:`.

    """
    if address.path or address.netloc or address.query or address.fragment:
        raise ValueError(f"store has to be memory: without more, not {address.geturl()!r}")
    return MemoryStore()
