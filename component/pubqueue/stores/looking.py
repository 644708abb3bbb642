"""Looks at the store at an address and leaves it unchanged: nothing is created, written or migrated.

So a configuration can be checked beside a running service, or before its first start.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, Protocol, TypeVar
from urllib.parse import urlsplit

from pubqueue.stores import store_at

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.engine.ports import Store, Transaction

T = TypeVar("T")


class Looked(NamedTuple, Generic[T]):
    """The findings in a store, and their report. None: the store has nothing yet that could be read."""

    found: T | None
    says: list[str]


class _Kind(Protocol):
    def look(self, store: Store, job: Callable[[Transaction], T]) -> Looked[T]: ...


KINDS: Final = {"sqlite": "pubqueue.stores.sqlite", "postgresql": "pubqueue.stores.postgres"}
"""The module `looking` of each durable kind of store; PostgreSQL's library may not be installed."""


def look(address: str, job: Callable[[Transaction], T]) -> Looked[T]:
    """Run a job that only reads on the store at this address, if it exists.

    Raises:
        ForeignStoreError: the store was not made by this program, or cannot be used.
        UnreachableStoreError: the store cannot be connected to.
        ValueError: it is not the address of a store.

    """
    store = store_at(address)
    package = KINDS.get(urlsplit(address).scheme)
    if package is None:
        return Looked(None, ["it keeps nothing when the service ends"])
    kind: _Kind = import_module(f"{package}.looking")
    return kind.look(store, job)


def older(done: int, known: int) -> str:
    """Return what happens to a store that an earlier version has written."""
    return f"its schema is number {done}; the start of this version brings it to {known}"
