"""How large an answer may be: Prosody and ejabberd refuse stanzas above 262,144 bytes from us or to a client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_STANZA_BYTES: Final = 500_000
"""Maximum bytes of a stanza that we send. Prosody ends the stream of a component that sends more than 512 KiB."""

MAX_ANSWER_BYTES: Final = 262_144
"""Bytes of one answer, with all that is around what was asked for."""

ROOM: Final = 240_000
"""Bytes of entries in it."""

PAYLOADS: Final = 196_608
"""Bytes of payload in it: what the core is asked for, which knows nothing of the words around them."""


def fitting(entries: Sequence[bytes]) -> int:
    """Return how many of the entries have room, one at least."""
    size = 0
    for count, entry in enumerate(entries):
        size += len(entry)
        if size > ROOM and count:
            return count
    return len(entries)
