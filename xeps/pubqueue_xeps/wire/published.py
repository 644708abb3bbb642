"""What is published or taken back, and what became of it."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from uuid import UUID

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pubqueue_xeps.wire.times import When

    Carry = Callable[[Mapping[str, str] | None], Mapping[str, str]]
    """Asked at each publish, where it is called, with the headers given there: returns those that the item carries."""


@dataclass(frozen=True, slots=True)
class Published:
    """An item that the service has, as it said itself."""

    node: str
    id: str
    duplicate: bool | None = None
    """Whether it was there already under its id, with the same payload, or was done within the node's `dedup_window`:
    then this publish has changed nothing. None: not known, for the service does not tell, or an earlier attempt of this
    very publish may have been the first."""
    dead: str | None = None
    """Why the item, which was there already, is dead, as far as that was said. None: it is not dead. No worker gets a dead
    one before an owner redrives it."""


@dataclass(frozen=True, slots=True)
class Retracted:
    """What became of an item that was taken back, as the service said itself."""

    node: str
    id: str
    there: bool | None
    """Whether it was in the node, and is deleted now. False: it was done before, or never there. None: it is gone, and
    whether this retract has deleted it is not known, for an earlier attempt of it was not answered."""
    locked: bool | None
    """Whether it was locked to a worker, which may have been at work on it: the worker is told by `item.lock_lost`, and
    its own retract is refused. None: not known, for the service does not tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewItem:
    """One of many items to publish at once, with what is its own; the arguments are those of `publish`."""

    payload: object
    id: str | None = None
    priority: int | None = None
    delay: When | None = None
    ttl: When | None = None
    headers: Mapping[str, str] | None = None
    group: str | None = None


def carrying(new: NewItem, carry: Carry | None) -> NewItem:
    """Return the item with the headers that it carries."""
    return new if carry is None else replace(new, headers=carry(new.headers))


def new_id() -> str:
    """Return an id that nobody else makes, and that sorts by time: a UUID of version 7 (RFC 9562 5.7)."""
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
