"""URLs that clients send."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from urllib.parse import SplitResult


def split(url: str) -> SplitResult | None:
    """Return the parts of a URL; None if it cannot be read, because its host or port is invalid."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises ValueError too
    except ValueError:
        return None
    return parts
