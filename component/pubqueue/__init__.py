"""pubqueue: a durable work queue in an XMPP network (XEP-0060 nodes, XEP-0254 queueing).

For workers and publishers everything they need is here: `from pubqueue import Publisher, Worker, Item`. The names are
those of `pubqueue_xeps`, and for operators those of `pubqueue.admin`, imported when they are first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from pubqueue.version import __version__ as __version__

if TYPE_CHECKING:
    from pubqueue.admin.admin import Admin, BlockingAdmin
    from pubqueue.admin.session import OperationRefused
    from pubqueue_xeps.client.connection import Connect
    from pubqueue_xeps.client.pace import Timings
    from pubqueue_xeps.errors import (
        ConfigurationError,
        DeliveryUnknown,
        FollowUpRefused,
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
        QuestionDied,
        Refused,
        Replaced,
        ServerUnreachable,
        ServiceUnavailable,
    )
    from pubqueue_xeps.handlers import Handlers
    from pubqueue_xeps.item import BlockingItem, Item
    from pubqueue_xeps.items import Items
    from pubqueue_xeps.middleware import ErrorReporting, Facts, Middleware, Next, Timed, Timing
    from pubqueue_xeps.outbox.outbox import Backlog, NotPublished, Outbox
    from pubqueue_xeps.outbox.relay import Relay, Relayed
    from pubqueue_xeps.publisher.publisher import BlockingPublisher, Publisher
    from pubqueue_xeps.publisher.replies import Reply
    from pubqueue_xeps.wire.joins import Join, Members
    from pubqueue_xeps.wire.names import BadCharacterError
    from pubqueue_xeps.wire.payloads.decoding import DecodeError
    from pubqueue_xeps.wire.publication import NewItem, Published, Retracted
    from pubqueue_xeps.wire.refusals import Failed, Outcome, Reject, Release
    from pubqueue_xeps.wire.then import FollowUp, Then
    from pubqueue_xeps.wire.waits import Hold, Signal, Signaled
    from pubqueue_xeps.worker.worker import Worker
    from pubqueue_xeps.xep_qos.levels import Level, Pending

__all__ = [
    "Admin",
    "Backlog",
    "BadCharacterError",
    "BlockingAdmin",
    "BlockingItem",
    "BlockingPublisher",
    "ConfigurationError",
    "Connect",
    "DecodeError",
    "DeliveryUnknown",
    "ErrorReporting",
    "Facts",
    "Failed",
    "FollowUp",
    "FollowUpRefused",
    "GoneUnconfirmed",
    "Handlers",
    "Hold",
    "Item",
    "ItemDead",
    "Items",
    "Join",
    "Level",
    "LockLost",
    "LoginFailed",
    "LoginRefused",
    "Members",
    "Middleware",
    "NewItem",
    "Next",
    "NoReply",
    "NoReplyWanted",
    "NoSuchNode",
    "NotAQueue",
    "NotAllPublished",
    "NotConfirmed",
    "NotPublished",
    "OperationRefused",
    "OtherId",
    "Outbox",
    "Outcome",
    "Pending",
    "PendingFailed",
    "Published",
    "Publisher",
    "PubqueueError",
    "QuestionDied",
    "Refused",
    "Reject",
    "Relay",
    "Relayed",
    "Release",
    "Replaced",
    "Reply",
    "Retracted",
    "ServerUnreachable",
    "ServiceUnavailable",
    "Signal",
    "Signaled",
    "Then",
    "Timed",
    "Timing",
    "Timings",
    "Worker",
]

_HOME: Final[dict[str, tuple[str, ...]]] = {
    "client.connection": ("Connect",),
    "client.pace": ("Timings",),
    "handlers": ("Handlers",),
    "item": ("BlockingItem", "Item"),
    "items": ("Items",),
    "middleware": ("ErrorReporting", "Facts", "Middleware", "Next", "Timed", "Timing"),
    "outbox.outbox": ("Backlog", "NotPublished", "Outbox"),
    "outbox.relay": ("Relay", "Relayed"),
    "publisher.publisher": ("BlockingPublisher", "Publisher"),
    "publisher.replies": ("Reply",),
    "wire.names": ("BadCharacterError",),
    "wire.refusals": ("Failed", "Outcome", "Reject", "Release"),
    "wire.payloads.decoding": ("DecodeError",),
    "wire.publication": ("NewItem", "Published", "Retracted"),
    "wire.then": ("FollowUp", "Then"),
    "wire.joins": ("Join", "Members"),
    "wire.waits": ("Hold", "Signal", "Signaled"),
    "worker.worker": ("Worker",),
    "xep_qos.levels": ("Level", "Pending"),
}
"""The module of each name in the client library; what stands in none is an error."""

_OWN: Final[dict[str, tuple[str, ...]]] = {
    "admin.admin": ("Admin", "BlockingAdmin"),
    "admin.session": ("OperationRefused",),
}
"""The modules of names here."""

_MODULES: Final = (
    dict.fromkeys(__all__, "pubqueue_xeps.errors")
    | {name: f"pubqueue_xeps.{module}" for module, names in _HOME.items() for name in names}
    | {name: f"pubqueue.{module}" for module, names in _OWN.items() for name in names}
)


def __getattr__(name: str) -> Any:  # noqa: ANN401 - PEP 562
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(module), name)
    return found


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
