"""Questions and replies: the headers of a question, the id of its reply, and what the service publishes if no reply comes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

from pubqueue_xeps.wire.names import ILLEGAL, joined
from pubqueue_xeps.wire.ns import PUBQUEUE

# The headers that define the node and the id of a reply.

REPLY_TO: Final = "reply-to"
CORRELATION: Final = "correlation-id"
PLACE: Final = "replies/"
"""The prefix of nodes for replies; a worker replies to no other node, whatever the asker requests."""

MAX_ID_BYTES: Final = 1023
"""The maximum length of an id in bytes (XEP-0060 12.9 and RFC 7622 3.4)."""


def correlation(node: str, name: str) -> str:
    """Return the id of the reply to an item."""
    return bounded(joined(node, name))


def bounded(name: str) -> str:
    """Return an id of allowed length, always the same for a name."""
    encoded = name.encode()
    return name if len(encoded) <= MAX_ID_BYTES else hashlib.sha256(encoded).hexdigest()


# What the service publishes in place of a reply, when a question ends without having been done. This is written without a
# library for XML: the rules of the service, which import none, write it.

DIED: Final = f"{{{PUBQUEUE}}}died"

_ESCAPES: Final = str.maketrans(
    {
        "&": "&amp;",
        "<": "&lt;",
        ">": "&gt;",
        '"': "&quot;",
        "\n": "&#10;",
        "\r": "&#13;",
        "\t": "&#9;",
    }
)


@dataclass(frozen=True, slots=True)
class Death:
    """How a question ended: why, in which node and under which id, after how many deliveries and failures.

    The node is empty if it was purged or deleted.
    """

    node: str
    id: str
    reason: str
    attempts: int
    failures: int

    def written(self) -> bytes:
        """Return it as the payload of a reply."""
        named = {"node": self.node, "id": self.id, "reason": ILLEGAL.sub("\ufffd", self.reason)}
        words = [f' {name}="{text.translate(_ESCAPES)}"' for name, text in named.items() if text]
        counts = f' attempts="{self.attempts}" failures="{self.failures}"'
        return f"<died xmlns='{PUBQUEUE}'{''.join(words)}{counts}/>".encode()
