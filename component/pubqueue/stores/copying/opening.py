"""Opens the two ends of a copy by their addresses."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import urlsplit

from pubqueue.stores import STORES, shown_address, store_at
from pubqueue.stores.copying.endpoints import RefusedError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from pubqueue.engine.ports import Store
    from pubqueue.stores.copying.endpoints import Source, Target


class _Kind(Protocol):
    """The interface of a module of this package, for its kind of store."""

    def source(self, store: Store) -> AbstractContextManager[Source]: ...

    def running(self, store: Store) -> AbstractContextManager[Source]: ...

    def target(self, store: Store, source: Source) -> AbstractContextManager[Target]: ...


KINDS: Final = {"sqlite": "sqlite_tables", "postgresql": "postgres_tables"}
"""The module for each durable kind of store; PostgreSQL's library may not be installed."""


def source_at(address: str) -> AbstractContextManager[Source]:
    """Open the store to copy from; no process writes to it until it is closed.

    Raises:
        RefusedError: it is not the address of a store that can be copied, or there is no store.
        StoreError: it is in use, or cannot be reached.

    """
    store, kind = _opened(address)
    return kind.source(store)


def running_at(address: str) -> AbstractContextManager[Source]:
    """Open a snapshot of the store for reading, while processes continue to serve from it.

    Raises:
        RefusedError: it is not the address of a store that can be copied, or there is no store.
        StoreError: it is not of this version of the program, or cannot be reached.

    """
    store, kind = _opened(address)
    return kind.running(store)


def target_at(address: str, source: Source) -> AbstractContextManager[Target]:
    """Open the store to copy into; no process serves from it until it is closed.

    Raises:
        RefusedError: it is not the address of a store that can be copied, or it is the source.
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
