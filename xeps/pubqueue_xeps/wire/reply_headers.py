"""The headers that define the node and the id of a reply."""

from __future__ import annotations

import hashlib
from typing import Final

REPLY_TO: Final = "reply-to"
CORRELATION: Final = "correlation-id"
PLACE: Final = "replies/"
"""The prefix of nodes for replies; a worker replies to no other node, whatever the asker requests."""

MAX_ID_BYTES: Final = 1023
"""The maximum length of an id in bytes (XEP-0060 12.9 and RFC 7622 3.4)."""


def correlation(node: str, name: str) -> str:
    """Return the id of the reply to an item."""
    return bounded(f"{node}/{name}")


def bounded(name: str) -> str:
    """Return an id of allowed length, always the same for a name."""
    encoded = name.encode()
    return name if len(encoded) <= MAX_ID_BYTES else hashlib.sha256(encoded).hexdigest()
