"""The stores, by the scheme of their address: a new one is a folder and a row here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from pubqueue.stores import memory, sqlite

if TYPE_CHECKING:
    from collections.abc import Callable
    from urllib.parse import SplitResult

    from pubqueue.app.ports import Store

STORES: Final[dict[str, Callable[[SplitResult], Store]]] = {
    "sqlite": sqlite.store_at,
    "memory": memory.store_at,
}

WANTED: Final = "sqlite:///path/to/file or memory:"


def store_at(address: str) -> Store:
    """Return the store at this address, not opened yet.

    Raises:
        ValueError: it is no address of a store; the message says what would be one.

    """
    parts = urlsplit(address)
    make = STORES.get(parts.scheme)
    if make is None:
        raise ValueError(f"store has to be {WANTED}, not {address!r}")
    return make(parts)
