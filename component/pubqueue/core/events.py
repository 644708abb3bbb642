"""The entries of a node's event log, as values."""

from __future__ import annotations

from enum import StrEnum, unique
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from pubqueue.core.model import ItemId, Jid, Millis, NodeName


@unique
class EventKind(StrEnum):
    """The type of an event."""

    PUBLISHED = "published"
    DELIVERED = "delivered"
    COMPLETED = "completed"
    """Retracted by its holder, or late by its last holder."""
    UNLOCKED = "unlocked"
    EXPIRED = "expired"
    """The lock timed out."""
    DEAD = "dead"
    REQUEUED = "requeued"
    """A dead item was redriven."""
    RETRACTED = "retracted"
    """Withdrawn: by an owner or its publisher, because of another payload, or because of its age in a plain node."""
    PURGED = "purged"
    """All items of the node are deleted; `detail` is their number."""


class Event(Struct, frozen=True, gc=False):
    """One entry. `age` is the time since the publish, `held` since the delivery, if there was a lock."""

    kind: EventKind
    node: NodeName
    item: ItemId | None = None
    attempt: int | None = None
    worker: Jid | None = None
    publisher: Jid | None = None
    age: Millis | None = None
    held: Millis | None = None
    origin: NodeName | None = None
    to: NodeName | None = None
    detail: str = ""


class PublishedByCommit(Struct, frozen=True, gc=False):
    """A commit makes too many items visible in a node to name them one by one."""

    node: NodeName
    queueing: bool
    publisher: Jid


LogEntry = Event | PublishedByCommit
