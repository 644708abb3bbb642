"""Names, times and digests. Values only: nothing here decides anything."""

from __future__ import annotations

from hashlib import blake2b
from typing import Final, NewType
from zlib import crc32

NodeName = NewType("NodeName", str)
"""A NodeID (XEP-0060 4.6.2), normalised, unique in the service."""

ItemId = NewType("ItemId", str)
"""An ItemID, unique in its node."""

MAX_ID_LENGTH: Final = 1023
"""Bytes of a NodeID or ItemID (XEP-0060 4.6.2)."""

Millis = NewType("Millis", int)
"""Milliseconds since 1970-01-01 UTC, or a span of them."""

Headers = tuple[tuple[str, str], ...]
"""A publisher's headers of an item, sent beside its payload: names and values, in order (XEP-0131)."""


def seconds(count: float) -> Millis:
    """Return a span of this many seconds."""
    return Millis(round(count * 1000))


def later(moment: Millis, span: Millis) -> Millis:
    """Return the moment that is `span` after `moment`."""
    return Millis(moment + span)


def digest(payload: bytes) -> bytes:
    """Return the digest that stands for a payload after its item is gone."""
    return blake2b(payload, digest_size=16).digest()


def mark_of(subid: str) -> str:
    """Return a short word for the id of a subscription, by which its deliveries are known; empty for none."""
    return f"{crc32(subid.encode()):08x}" if subid else ""


NO_TIME: Final = Millis(0)
