"""The stores, by the scheme of their address: a new one is a folder and a row here."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable
from urllib.parse import urlsplit

from pubqueue.stores import postgres, sqlite
from pubqueue.stores.sqlite import in_memory

if TYPE_CHECKING:
    from collections.abc import Callable
    from urllib.parse import SplitResult

    from pubqueue.engine.ports import Store
    from pubqueue.model.entities import Millis

STORES: Final[dict[str, tuple[str, Callable[[SplitResult], Store]]]] = {
    "sqlite": ("sqlite:///path/to/file", sqlite.store_at),
    "postgresql": ("postgresql://role@host/database", postgres.store_at),
    "memory": ("memory:", in_memory.store_at),
}
"""For each scheme the form of its address, and the function that makes the store."""

WANTED: Final = " or ".join(written for written, _ in STORES.values())


@runtime_checkable
class Timed(Protocol):
    """A store with a clock of its own, for processes on machines whose clocks may differ."""

    def clock(self, machine: Callable[[], Millis]) -> Callable[[], Millis]:
        """Return the clock by which deadlines are set and judged, derived from this machine's clock."""

    @property
    def clock_ahead(self) -> int:
        """How many milliseconds the store's clock is ahead of this machine's, if known."""


def store_at(address: str) -> Store:
    """Return the store at this address, not opened yet.

    Raises:
        ValueError: it is not the address of a store; the message lists the forms of addresses.

    """
    parts = urlsplit(address)
    if parts.scheme not in STORES:
        raise ValueError(f"store must be {WANTED}, not {shown_address(address)!r}")
    _, make = STORES[parts.scheme]
    return make(parts)


def shown_address(address: str) -> str:
    """Return the address as it may be shown: without its password."""
    scheme, slashes, rest = address.partition("://")
    if not slashes:
        return address
    people, at, place = rest.rpartition("@")
    name, colon, _ = people.partition(":")
    place = re.sub(r"(?i)(password=)[^&#]*", r"\1...", place)
    return f"{scheme}://{name}{':...' if colon else ''}{at}{place}"
