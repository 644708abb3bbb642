"""pubqueue: a durable work queue in an XMPP network (XEP-0060 nodes, XEP-0254 queueing).

For workers and publishers everything they need is here: `from pubqueue import Publisher, Worker, Item`. The names are
those of `pubqueue_xeps`, imported when they are first asked for.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pubqueue_xeps.client.connection import Connect
    from pubqueue_xeps.client.pace import Timings
    from pubqueue_xeps.errors import (
        ConfigurationError,
        DeliveryUnknown,
        GoneUnconfirmed,
        ItemDead,
        LockLost,
        LoginFailed,
        LoginRefused,
        NoReply,
        NoReplyWanted,
        NoSuchNode,
        NotAllPublished,
        NotAQueue,
        NotConfirmed,
        OtherId,
        PendingFailed,
        PubqueueError,
        Refused,
        Replaced,
        ServerUnreachable,
        ServiceUnavailable,
    )
    from pubqueue_xeps.handlers import Handlers
    from pubqueue_xeps.item import BlockingItem, Item
    from pubqueue_xeps.middleware import ErrorReporting, Facts, Middleware, Next, Timed, Timing
    from pubqueue_xeps.publisher.publisher import BlockingPublisher, Publisher
    from pubqueue_xeps.publisher.replies import Reply
    from pubqueue_xeps.wire.names import BadCharacterError
    from pubqueue_xeps.wire.payloads.decoding import DecodeError
    from pubqueue_xeps.wire.publication import NewItem, Published, Retracted
    from pubqueue_xeps.wire.refusals import Failed, Outcome, Reject, Release
    from pubqueue_xeps.worker.worker import Worker
    from pubqueue_xeps.xep_qos.levels import Level, Pending

__all__ = [
    "BadCharacterError",
    "BlockingItem",
    "BlockingPublisher",
    "ConfigurationError",
    "Connect",
    "DecodeError",
    "DeliveryUnknown",
    "ErrorReporting",
    "Facts",
    "Failed",
    "GoneUnconfirmed",
    "Handlers",
    "Item",
    "ItemDead",
    "Level",
    "LockLost",
    "LoginFailed",
    "LoginRefused",
    "Middleware",
    "NewItem",
    "Next",
    "NoReply",
    "NoReplyWanted",
    "NoSuchNode",
    "NotAQueue",
    "NotAllPublished",
    "NotConfirmed",
    "OtherId",
    "Outcome",
    "Pending",
    "PendingFailed",
    "Published",
    "Publisher",
    "PubqueueError",
    "Refused",
    "Reject",
    "Release",
    "Replaced",
    "Reply",
    "Retracted",
    "ServerUnreachable",
    "ServiceUnavailable",
    "Timed",
    "Timing",
    "Timings",
    "Worker",
]

__version__ = version("pubqueue")

_HOME: Final[dict[str, tuple[str, ...]]] = {
    "client.connection": ("Connect",),
    "client.pace": ("Timings",),
    "handlers": ("Handlers",),
    "item": ("BlockingItem", "Item"),
    "middleware": ("ErrorReporting", "Facts", "Middleware", "Next", "Timed", "Timing"),
    "publisher.publisher": ("BlockingPublisher", "Publisher"),
    "publisher.replies": ("Reply",),
    "wire.names": ("BadCharacterError",),
    "wire.refusals": ("Failed", "Outcome", "Reject", "Release"),
    "wire.payloads.decoding": ("DecodeError",),
    "wire.publication": ("NewItem", "Published", "Retracted"),
    "worker.worker": ("Worker",),
    "xep_qos.levels": ("Level", "Pending"),
}
"""The module of each name; what stands in none is an error."""

_MODULES: Final = dict.fromkeys(__all__, "errors") | {
    name: module for module, names in _HOME.items() for name in names
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - PEP 562
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"pubqueue_xeps.{module}"), name)
    return found


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
