"""The events of a queue, read from bare elements (XEP-0254 sections 2.2 to 2.4)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pubqueue_xeps.log import log
from pubqueue_xeps.wire import ns
from pubqueue_xeps.wire.ns import PUBQUEUE, QUEUEING, QUEUEING_SHORT, SHIM
from pubqueue_xeps.wire.times import read_time

if TYPE_CHECKING:
    from datetime import datetime
    from xml.etree.ElementTree import Element


Place = tuple[str, str]
"""A node and the id of an item in it."""


@dataclass(frozen=True, slots=True)
class Lock:
    """The lock under which an item was delivered; `token` only increases, `failed` counts failures so far."""

    token: int
    deadline: datetime
    attempt: int
    published: datetime | None
    failed: int = 0


@dataclass(frozen=True, slots=True)
class Delivered:
    """An item is locked to us. A service that does not know `urn:x-pubqueue:0` sends no `lock`.

    `headers` are the publisher's (XEP-0131); for a repeated name, the last value.
    """

    service: str
    node: str
    id: str
    payload: Element | None
    publisher: str | None
    lock: Lock | None
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Retracted:
    """The item is deleted; if we retracted it, its work may be committed now."""

    service: str
    node: str
    id: str


@dataclass(frozen=True, slots=True)
class Unlocked:
    """The item is no longer locked to us: we unlocked it, or the lock timed out."""

    service: str
    node: str
    id: str


@dataclass(frozen=True, slots=True)
class Purged:
    """All items of the node are gone (XEP-0060 section 8.5)."""

    service: str
    node: str


@dataclass(frozen=True, slots=True)
class Deleted:
    """The node is gone (XEP-0060 section 8.4)."""

    service: str
    node: str


QueueEvent = Delivered | Retracted | Unlocked | Purged | Deleted

EVENT: Final = f"{{{ns.EVENT}}}event"
ITEMS: Final = f"{{{ns.EVENT}}}items"
ITEM: Final = f"{{{ns.EVENT}}}item"
RETRACT: Final = f"{{{ns.EVENT}}}retract"
PURGE: Final = f"{{{ns.EVENT}}}purge"
DELETE: Final = f"{{{ns.EVENT}}}delete"
UNLOCK: Final = frozenset(f"{{{ns}}}unlock" for ns in (QUEUEING, QUEUEING_SHORT))
LOCK: Final = f"{{{PUBQUEUE}}}lock"
HEADERS: Final = f"{{{SHIM}}}headers"


def read_event(message: Element) -> list[QueueEvent]:
    """Return the events of a queue in a message, in their order; empty if it has none."""
    event = message.find(EVENT)
    if event is None or message.get("type") == "error":
        return []
    found: list[QueueEvent] = []
    service = message.get("from", "")
    for part in event:
        node = part.get("node", "")
        if part.tag == ITEMS:
            found += _read_items(message, part, service, node)
        elif part.tag == PURGE:
            found.append(Purged(service, node))
        elif part.tag == DELETE:
            found.append(Deleted(service, node))
    return found


def _read_items(message: Element, items: Element, service: str, node: str) -> list[QueueEvent]:
    found: list[QueueEvent] = []
    for child in items:
        id = child.get("id", "")  # noqa: A001 - the name of the attribute
        if child.tag == ITEM:
            payload = child[0] if len(child) else None
            lock = _read_lock(message)
            headers = message.find(HEADERS)
            named = {} if headers is None else {it.get("name", ""): it.text or "" for it in headers}
            found.append(Delivered(service, node, id, payload, child.get("publisher"), lock, named))
        elif child.tag == RETRACT:
            found.append(Retracted(service, node, id))
        elif child.tag in UNLOCK:
            found.append(Unlocked(service, node, id))
    return found


def _read_lock(message: Element) -> Lock | None:
    lock = message.find(LOCK)
    if lock is None:
        return None
    published = lock.get("published")
    try:
        return Lock(
            token=int(lock.get("token", "")),
            deadline=read_time(lock.get("deadline", "")),
            attempt=int(lock.get("attempt", "")),
            published=None if published is None else read_time(published),
            failed=int(lock.get("failed", "0")),
        )
    except ValueError as error:
        # the item is usable without it
        log.warning("lock.unreadable", sender=message.get("from"), error=str(error))
        return None
