"""The checksum of what a worker gets of an item: made when it is published, kept with it, compared whenever it is given out.

Its lower half is the CRC-32 of the payload, its upper half that of the id, the group and the headers. So either can be
compared, and changed, without the other. CRC-32 finds each single bit that is flipped, and each run of up to 32 (decision 143).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from zlib import crc32

from msgspec import msgpack
from msgspec.structs import replace

from pubqueue.model.joins import DAMAGED as DAMAGED_JOIN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pubqueue.model.entities import Headers, Item, ItemId

DAMAGED: Final = "the stored content is damaged"
"""Why an item died whose content is not what was published."""

NUMBERS: Final = ("priority", "published", "acquired", "failed", "released", "size")

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
    if (item.wait is not None and item.wait.damaged) or item.joins == DAMAGED_JOIN:
        return False
    if item.headers == UNREADABLE or not has_numbers(item):
        return False
    known = item.sum
    return known is None or known + SIGN >> 32 == _head(item.id, item.group, item.headers)


def has_numbers(item: Item) -> bool:
    """Return whether the numbers of an item are numbers: in a damaged row they may be something else."""
    try:
        sum((item.priority, item.published, item.acquired, item.failed, item.released, item.size))
    except TypeError:
        return False
    return True


def with_numbers(item: Item) -> Item:
    """Return the item with 0 in the place of such numbers, so that it can die."""
    return replace(item, **{name: 0 for name in NUMBERS if type(getattr(item, name)) is not int})


def is_sound(known: int | None, payload: bytes) -> bool:
    """Return whether the payload is the one that was published, as far as that is known."""
    return known is None or known + SIGN & HALF == crc32(payload)


def is_damaged(item: Item) -> bool:
    """Return whether the item died because its content is damaged."""
    return item.dead_letter is not None and DAMAGED in item.dead_letter.reason


def sum_of_row(key: Sequence[object], rest: Sequence[object]) -> int:
    """Return the checksum of a row by its columns, in tables without items: its upper half is that of its key (decision 151)."""
    return (key_sum(key) << 32 | key_sum(rest)) - SIGN


def key_sum(columns: Sequence[object]) -> int:
    """Return half a checksum; flags are numbers in one database and none in another."""
    plain = [int(value) if isinstance(value, bool) else value for value in columns]
    return crc32(msgpack.encode(plain))


def key_half(*key: object) -> int:
    """Return the upper half of the checksum of a row with this key, as `sum >> 32` has it in a database."""
    return key_sum(key) - (SIGN >> 32)


def has_key(known: int | None, *key: object) -> bool:
    """Return whether the key of a row is the one that was written, as far as that is known."""
    return known is None or known + SIGN >> 32 == key_sum(key)


SEAL: Final = b"\xc1"
"""Begins what is sealed: a byte that MessagePack never uses."""


def sealed(content: bytes) -> bytes:
    """Return content in MessagePack with its checksum in front of it."""
    return SEAL + crc32(content).to_bytes(4) + content


def unsealed(stored: bytes) -> bytes | None:
    """Return the content, None if it is damaged; what an earlier version has stored is taken as it is."""
    if not stored.startswith(SEAL):
        return stored
    content = stored[5:]
    return content if stored[1:5] == crc32(content).to_bytes(4) else None


def _head(item: ItemId, group: str, headers: Headers) -> int:
    if not group and not headers:
        return crc32(item.encode("utf-8", LONE))
    parts = [item, group, *(part for header in headers for part in header)]
    return crc32("\0".join(parts).encode("utf-8", LONE))
