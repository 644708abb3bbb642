"""The limit of an item's headers, which is separate from that of its payload."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pubqueue.core.model import Headers

MAX_HEADERS: Final = 64
"""Headers of one item."""

MAX_NAME_LENGTH: Final = 255
"""Bytes of a header's name."""

MAX_BYTES: Final = 16_384
"""Bytes of all names and values of one item: a large payload leaves little room in the stanzas that faces send."""

DIED_IN: Final = "x-pubqueue-died-in"
"""The header of a dead item that a plain node has passed on: the queue in which it died."""

DELIVERIES: Final = "x-pubqueue-deliveries"
"""The header with the number of failed deliveries there."""


def with_death(headers: Headers, queue: str, failed: int) -> Headers:
    """Return the headers of an item that died in the queue, instead of those of an earlier death."""
    return (*without_death(headers), (DIED_IN, queue), (DELIVERIES, str(failed)))


def without_death(headers: Headers) -> Headers:
    """Return the headers that the item had when it was published."""
    return tuple([header for header in headers if header[0] not in {DIED_IN, DELIVERIES}])


def excess(headers: Headers) -> str | None:
    """Return which bound the headers exceed, or None."""
    if len(headers) > MAX_HEADERS:
        return f"an item has at most {MAX_HEADERS} headers"
    if any(len(name.encode()) > MAX_NAME_LENGTH for name, _ in headers):
        return f"a header's name has at most {MAX_NAME_LENGTH} bytes"
    if sum(len(name.encode()) + len(value.encode()) for name, value in headers) > MAX_BYTES:
        return f"the headers of an item have at most {MAX_BYTES} bytes"
    return None
