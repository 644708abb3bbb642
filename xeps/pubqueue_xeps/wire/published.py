"""Items to publish, and the result of a publish or retract."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from uuid import UUID

from pubqueue_xeps.wire.payloads.content_type import HEADER
from pubqueue_xeps.wire.payloads.encoding import typed

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue_xeps.wire.times import When

    Carry = Callable[[Mapping[str, str] | None], Mapping[str, str]]
    """Asked at each publish, where it is called, with the headers given there: returns those that the item carries."""


@dataclass(frozen=True, slots=True)
class Published:
    """An item that the service has confirmed."""

    node: str
    id: str
    duplicate: bool | None = None
    """Whether the item was already there under its id, with the same payload, or was done within the node's
    `dedup_window`: this publish then changed nothing. None: unknown, because the service does not report it, or an
    earlier attempt of this very publish may have been the first."""
    dead: str | None = None
    """Why the item, which was already there, is dead, if a reason was given. None: it is not dead. No worker gets a dead
    item before an owner redrives it."""


@dataclass(frozen=True, slots=True)
class Retracted:
    """The result of cancelling an item, as the service confirmed it."""

    node: str
    id: str
    there: bool | None
    """Whether the item was in the node, and is now deleted. False: it was done before, or never there. None: it is gone,
    and whether this retract deleted it is unknown, because an earlier attempt was not answered."""
    locked: bool | None
    """Whether the item was locked to a worker, which may have been working on it: the worker is notified by
    `item.lock_lost`, and its own retract is refused. None: unknown, because the service does not report it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewItem:
    """One of many items to publish at once, with arguments of its own; they are those of `publish`."""

    payload: object
    id: str | None = None
    priority: int | None = None
    delay: When | None = None
    ttl: When | None = None
    headers: Mapping[str, str] | None = None
    group: str | None = None
    type: str | None = None
    """The content type of a payload that is a str, bytes or an Element."""


def wrapped(new: NewItem) -> NewItem:
    """Return the item with a payload of a content type as it is sent, and the type in its headers where it belongs there.

    Raises TypeError or ValueError for a payload that cannot be of this type.
    """
    if new.type is None:
        return new
    payload, headers = typed(new.payload, new.type), new.headers
    if headers is None or isinstance(headers, Mapping):  # else it is refused with the other headers
        headers = {name: value for name, value in (headers or {}).items() if not _is_type(name)}
        headers |= {} if payload.header is None else {HEADER: payload.header}
    return replace(new, payload=payload, headers=headers, type=None)


def _is_type(name: object) -> bool:
    return isinstance(name, str) and name.lower() == HEADER


def carrying(new: NewItem, carry: Carry | None) -> NewItem:
    """Return the item with the headers that it carries."""
    return new if carry is None else replace(new, headers=carry(new.headers))


def new_id() -> str:
    """Return a unique id that sorts by time: a UUID of version 7 (RFC 9562 5.7)."""
    milliseconds = time.time_ns() // 1_000_000 & (1 << 48) - 1
    return str(
        UUID(
            int=milliseconds << 80
            | 7 << 76
            | secrets.randbits(12) << 64
            | 2 << 62
            | secrets.randbits(62)
        )
    )
