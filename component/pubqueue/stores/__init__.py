"""The stores, by the scheme of their address: a new one is a folder and a row here."""

from __future__ import annotations

import re
from importlib import import_module
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable
from urllib.parse import urlsplit

from pubqueue.stores import postgres, sqlite
from pubqueue.stores.sqlite import in_memory

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from urllib.parse import SplitResult

    from pubqueue.engine.ports import Store, Transaction
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


def file_of(address: str) -> Path | None:
    """Return the file of the store at this address; None if it is in no file."""
    parts = urlsplit(address)
    return sqlite.file_in(parts) if parts.scheme == "sqlite" else None


def shown_address(address: str) -> str:
    """Return the address as it may be shown: without its password."""
    scheme, slashes, rest = address.partition("://")
    if not slashes:
        return address
    people, at, place = rest.rpartition("@")
    name, colon, _ = people.partition(":")
    place = re.sub(r"(?i)(password=)[^&#]*", r"\1...", place)
    return f"{scheme}://{name}{':...' if colon else ''}{at}{place}"


# Reads the store at an address and leaves it unchanged: nothing is created, written or migrated.
#
# So a configuration can be checked beside a running service, or before its first start.

T = TypeVar("T")


class ReadOnlyResult(NamedTuple, Generic[T]):
    """The findings in a store, and their report. None: the store has nothing yet that could be read."""

    found: T | None
    says: list[str]


class _ReadOnly(Protocol):
    def run_read_only(self, store: Store, job: Callable[[Transaction], T]) -> ReadOnlyResult[T]: ...


READ_ONLY: Final = {
    "sqlite": "pubqueue.stores.sqlite.read_only",
    "postgresql": "pubqueue.stores.postgres.read_only",
}
"""The module that reads each durable kind of store; PostgreSQL's library may not be installed."""


def run_read_only(address: str, job: Callable[[Transaction], T]) -> ReadOnlyResult[T]:
    """Run a job that only reads on the store at this address, if it exists.

    Raises:
        ForeignStoreError: the store was not made by this program, or cannot be used.
        UnreachableStoreError: the store cannot be connected to.
        ValueError: it is not the address of a store.

    """
    store = store_at(address)
    name = READ_ONLY.get(urlsplit(address).scheme)
    if name is None:
        return ReadOnlyResult(None, ["it keeps nothing when the service ends"])
    module: _ReadOnly = import_module(name)
    return module.run_read_only(store, job)


def older(done: int, known: int) -> str:
    """Return what happens to a store that an earlier version has written."""
    return f"its schema is number {done}; the start of this version brings it to {known}"
