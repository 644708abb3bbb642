"""How much a publisher may say of an item beside its payload: headers have a limit of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pubqueue.core.model import Headers

MOST: Final = 64
"""Headers of one item."""

LONGEST_NAME: Final = 255
"""Bytes of a header's name."""

LARGEST: Final = 16_384
"""Bytes of all names and values of one item: beside a large payload there is little room in what faces send."""


def excess(headers: Headers) -> str | None:
    """Say which bound the headers exceed, or None."""
    if len(headers) > MOST:
        return f"an item has at most {MOST} headers"
    if any(len(name.encode()) > LONGEST_NAME for name, _ in headers):
        return f"a header's name has at most {LONGEST_NAME} bytes"
    if sum(len(name.encode()) + len(value.encode()) for name, value in headers) > LARGEST:
        return f"the headers of an item have at most {LARGEST} bytes"
    return None
