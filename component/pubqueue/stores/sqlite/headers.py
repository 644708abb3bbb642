"""Headers as a column: a list of pairs in JSON, NULL where there are none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from pubqueue.core.model import Headers

_PAIRS = tuple[tuple[str, str], ...]


def packed(headers: Headers) -> str | None:
    """Return what the column holds."""
    return msgspec.json.encode(headers).decode() if headers else None


def unpacked(text: str) -> Headers:
    """Return the headers of a column that is not NULL."""
    return msgspec.json.decode(text, type=_PAIRS)
