"""Looks at the store at an address and leaves it as it is: nothing is made, written, or brought to a newer schema.

So may whoever checks a configuration beside a service that runs, or before its first start.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, Protocol, TypeVar
from urllib.parse import urlsplit

from pubqueue.stores import store_at

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.app.store.ports import Store, Transaction

T = TypeVar("T")


class Looked(NamedTuple, Generic[T]):
    """What was found in a store; None: there is nothing yet that could be read. And what is to be said of it."""

    found: T | None
    says: list[str]


class _Kind(Protocol):
    def look(self, store: Store, job: Callable[[Transaction], T]) -> Looked[T]: ...


KINDS: Final = {"sqlite": "pubqueue.stores.sqlite", "postgresql": "pubqueue.stores.postgres"}
"""Where the stores that keep something have their module `looking`; PostgreSQL's library may not be installed."""


def look(address: str, job: Callable[[Transaction], T]) -> Looked[T]:
    """Run a job that only reads on the store at this address, if it is there.

    Raises:
        ForeignStoreError: what is there is no store of ours, or cannot be used.
        UnreachableStoreError: nobody lets us connect.
        ValueError: it is no address of a store.

    """
    store = store_at(address)
    package = KINDS.get(urlsplit(address).scheme)
    if package is None:
        return Looked(None, ["it keeps nothing when the service ends"])
    kind: _Kind = import_module(f"{package}.looking")
    return kind.look(store, job)


def older(done: int, known: int) -> str:
    """Return what becomes of a store that an earlier version has written."""
    return f"its schema is number {done}; the start of this version brings it to {known}"
