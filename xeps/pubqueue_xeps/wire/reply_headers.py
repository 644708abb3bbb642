"""The headers by which an asker and a worker agree on where a reply goes and what it is called."""

from __future__ import annotations

import hashlib
from typing import Final

REPLY_TO: Final = "reply-to"
CORRELATION: Final = "correlation-id"
PLACE: Final = "replies/"
"""The prefix of the names of nodes for replies: a worker replies nowhere else, whatever an asker requests."""

MAX_ID_BYTES: Final = 1023
"""Bytes of an id (XEP-0060 12.9 and RFC 7622 3.4)."""


def correlation(node: str, name: str) -> str:
    """Return the id of the reply to an item."""
    return bounded(f"{node}/{name}")


def bounded(name: str) -> str:
    """Return an id that is short enough, the same for the same name."""
    encoded = name.encode()
    return name if len(encoded) <= MAX_ID_BYTES else hashlib.sha256(encoded).hexdigest()
