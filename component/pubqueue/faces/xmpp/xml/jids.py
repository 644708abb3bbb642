"""Reads and normalises JIDs."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from slixmpp.jid import JID, InvalidJID

from pubqueue.model.entities import Jid

MAX_JID_LENGTH: Final = 3071
"""Maximum characters of a JID: three parts of 1023 bytes, and two separators (RFC 7622 3.1)."""


def jid_of(text: str) -> Jid | None:
    """Return the normalised JID, or None if the text is not a JID."""
    return _jid_of(text) if len(text) <= MAX_JID_LENGTH else None


@lru_cache(maxsize=4096)
def _jid_of(text: str) -> Jid | None:
    """Normalise a JID; cached, because JIDs repeat."""
    try:
        jid = JID(text)
    except InvalidJID:
        return None
    return Jid(jid.full) if jid.domain else None


def is_bare(text: str) -> bool:
    """Return whether the text is a JID without a resource, on one line."""
    jid = jid_of(text)
    return jid is not None and "/" not in jid and text.isprintable()
