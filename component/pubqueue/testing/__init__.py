"""Tests without a server: a handler alone, or with a queue service in this process.

`make_item` makes an item for a handler, and notes what the handler does with it; it takes no more than the client's
libraries. `Service` is the real service on a store in memory, and `Services` are several; both need `pubqueue[server]`. `Emulator` is a process for Google's
Pub/Sub clients, and needs `pubqueue[grpc]`. Fixtures of both are in `pubqueue.testing.pytest_plugin`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pubqueue.testing.emulator import Emulator
    from pubqueue.testing.items import Call, FollowUp, NotedItem, NotedItems, make_item, make_items
    from pubqueue.testing.service import Account, Kept, Service
    from pubqueue.testing.services import Services

__all__ = [
    "Account",
    "Call",
    "Emulator",
    "FollowUp",
    "Kept",
    "NotedItem",
    "NotedItems",
    "Service",
    "Services",
    "make_item",
    "make_items",
]

_MODULES: Final = {
    "Account": "service",
    "Call": "items",
    "Emulator": "emulator",
    "FollowUp": "items",
    "Kept": "service",
    "NotedItem": "items",
    "NotedItems": "items",
    "Service": "service",
    "Services": "services",
    "make_item": "items",
    "make_items": "items",
}


def __getattr__(name: str) -> object:
    """Import the requested name; if libraries of the service are missing, name them.

    Raises:
        ImportError: a library of `pubqueue[server]` is not installed.

    """
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = import_module(f"{__name__}.{_MODULES[name]}")
    except ModuleNotFoundError as problem:
        if (problem.name or "").split(".")[0].startswith("pubqueue"):
            raise  # an error of our own, not a missing library
        sentence = f"pubqueue.testing.{name} needs pip install 'pubqueue[server]' (no module {problem.name})"
        raise ImportError(sentence) from None
    found: object = getattr(module, name)
    return found
