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
    """Called at each publish with its headers; returns the headers to send."""


@dataclass(frozen=True, slots=True)
class Published:
    """An item that the service has confirmed."""

    node: str
    id: str
    duplicate: bool | None = None
    """Whether an item with this id and payload already existed, or was done within the node's `dedup_window`; this
    publish then changed nothing. None: unknown, because the service does not report it, or because an earlier attempt
    of this publish may have been the first."""
    dead: str | None = None
    """The reason why the item, which already existed, is dead; empty if none was given. None: it is not dead. No worker
    gets a dead item until an owner redrives it."""


@dataclass(frozen=True, slots=True)
class Retracted:
    """The result of cancelling an item, as the service confirmed it."""

    node: str
    id: str
    there: bool | None
    """Whether the item was in the node, and is now deleted. False: it was done before, or never existed. None: it is
    gone, but it is unknown whether this retract deleted it, because an earlier attempt was not answered."""
    locked: bool | None
    """Whether the item was locked to a worker. That worker is notified (`item.lock_lost`), and its own retract is
    refused. None: unknown, because the service does not report it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewItem:
    """One of many items to publish at once, with its own arguments, as `publish` takes them."""

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
    """Return the item with its typed payload in the form that is sent, and the type in its headers if needed.

    Raises TypeError or ValueError for a payload that cannot have this type.
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
    """Return the item with the headers to send."""
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
