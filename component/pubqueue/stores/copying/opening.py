"""Opens the two ends of a copy by their addresses."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import urlsplit

from pubqueue.stores import STORES, shown_address, store_at
from pubqueue.stores.copying.endpoints import RefusedError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from pubqueue.app.store.ports import Store
    from pubqueue.stores.copying.endpoints import Source, Target


class _Kind(Protocol):
    """What a module of this package offers, for its kind of store."""

    def source(self, store: Store) -> AbstractContextManager[Source]: ...

    def running(self, store: Store) -> AbstractContextManager[Source]: ...

    def target(self, store: Store, source: Source) -> AbstractContextManager[Target]: ...


KINDS: Final = {"sqlite": "sqlite_tables", "postgresql": "postgres_tables"}
"""The module for each kind of store that keeps what it has; PostgreSQL's library may not be installed."""


def source_at(address: str) -> AbstractContextManager[Source]:
    """Open the store to copy from; nobody writes to it, and it does not change, until it is closed.

    Raises:
        RefusedError: it is no address of a store that can be copied, or there is no store.
        StoreError: it is in use, or cannot be reached.

    """
    store, kind = _opened(address)
    return kind.source(store)


def running_at(address: str) -> AbstractContextManager[Source]:
    """Open the store to read, as it is at this moment, while whoever serves from it goes on.

    Raises:
        RefusedError: it is no address of a store that can be copied, or there is no store.
        StoreError: it is none of this version of the program, or cannot be reached.

    """
    store, kind = _opened(address)
    return kind.running(store)


def target_at(address: str, source: Source) -> AbstractContextManager[Target]:
    """Open the store to copy into; nobody serves from it until it is closed.

    Raises:
        RefusedError: it is no address of a store that can be copied, or it is the source.
        StoreError: it is in use, or cannot be reached.

    """
    store, kind = _opened(address)
    return kind.target(store, source)


def _opened(address: str) -> tuple[Store, _Kind]:
    scheme = urlsplit(address).scheme
    if scheme in STORES and scheme not in KINDS:
        raise RefusedError(f"{shown_address(address)} keeps nothing that could be copied")
    try:
        store = store_at(address)
    except ValueError as problem:
        raise RefusedError(str(problem)) from None
    return store, _module(scheme)


def _module(scheme: str) -> _Kind:
    module: _Kind = import_module(f"{__package__}.{KINDS[scheme]}")
    return module
