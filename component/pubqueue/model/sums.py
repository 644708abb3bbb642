"""The checksum of what a worker gets of an item: made when it is published, kept with it, compared whenever it is given out.

Its lower half is the CRC-32 of the payload, its upper half that of the id, the group and the headers. So either can be
compared, and changed, without the other. CRC-32 finds each single bit that is flipped, and each run of up to 32 (decision 143).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from zlib import crc32

if TYPE_CHECKING:
    from pubqueue.model.entities import Headers, Item, ItemId

DAMAGED: Final = "the stored content is damaged"
"""Why an item died whose content is not what was published."""

HALF: Final = 0xFFFF_FFFF
SIGN: Final = 1 << 63
"""Is subtracted, because databases have signed numbers."""

LONE: Final = "surrogatepass"
"""No store keeps a lone surrogate; it is refused there and not here."""

UNREADABLE: Final[Headers] = (("", "unreadable"),)
"""Stands for headers that cannot be read; no item is published with a header that has no name."""


def sum_of(item: ItemId, payload: bytes, group: str = "", headers: Headers = ()) -> int:
    """Return the checksum of an item's content."""
    head = _head(item, group, headers) if group or headers else crc32(item.encode("utf-8", LONE))
    return (head << 32 | crc32(payload)) - SIGN


def with_headers(item: Item, headers: Headers) -> int | None:
    """Return the checksum of the item with other headers; one that does not match stays, so that the damage is still found."""
    if item.sum is None or not has_sound_head(item):
        return item.sum
    return (_head(item.id, item.group, headers) << 32 | item.sum + SIGN & HALF) - SIGN


def has_sound_head(item: Item) -> bool:
    """Return whether id, group and headers are those that were published, as far as that is known."""
    if item.headers == UNREADABLE:
        return False
    known = item.sum
    return known is None or known + SIGN >> 32 == _head(item.id, item.group, item.headers)


def is_sound(known: int | None, payload: bytes) -> bool:
    """Return whether the payload is the one that was published, as far as that is known."""
    return known is None or known + SIGN & HALF == crc32(payload)


def is_damaged(item: Item) -> bool:
    """Return whether the item died because its content is damaged."""
    return item.dead_letter is not None and DAMAGED in item.dead_letter.reason


def _head(item: ItemId, group: str, headers: Headers) -> int:
    if not group and not headers:
        return crc32(item.encode("utf-8", LONE))
    parts = [item, group, *(part for header in headers for part in header)]
    return crc32("\0".join(parts).encode("utf-8", LONE))
