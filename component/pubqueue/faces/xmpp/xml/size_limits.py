"""Size limits of answers: Prosody and ejabberd refuse stanzas of more than 262,144 bytes from the service or to a client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_STANZA_BYTES: Final = 500_000
"""Maximum bytes of an outgoing stanza. Prosody ends the stream of a component that sends more than 512 KiB."""

MAX_ANSWER_BYTES: Final = 262_144
"""Maximum bytes of an answer, with the elements around its entries."""

MAX_PAYLOAD_BYTES: Final = 262_144
"""Maximum bytes of a payload; servers would refuse a larger stanza anyway (Prosody and ejabberd: 256 KiB)."""

ROOM: Final = 240_000
"""Maximum bytes of the entries in an answer."""

PAYLOADS: Final = 196_608
"""Maximum bytes of payloads in an answer. The core uses this limit, because it does not know the XML around them."""


def fitting(entries: Sequence[bytes]) -> int:
    """Return the number of entries that fit, at least one."""
    size = 0
    for count, entry in enumerate(entries):
        size += len(entry)
        if size > ROOM and count:
            return count
    return len(entries)
