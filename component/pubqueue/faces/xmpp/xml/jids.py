"""Addresses as they are written: normalised, or none."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from slixmpp.jid import JID, InvalidJID

from pubqueue.core.model import Jid

MAX_JID_LENGTH: Final = 3071
"""Characters of a JID at most: three parts of 1023 bytes, and what stands between (RFC 7622 3.1)."""


def jid_of(text: str) -> Jid | None:
    """Return the normalised JID, or None if it is none."""
    return _jid_of(text) if len(text) <= MAX_JID_LENGTH else None


@lru_cache(maxsize=4096)
def _jid_of(text: str) -> Jid | None:
    """Do so; kept, for the same ones come again."""
    try:
        jid = JID(text)
    except InvalidJID:
        return None
    return Jid(jid.full) if jid.domain else None


def is_bare(text: str) -> bool:
    """Return whether this is a JID without a resource, on one line."""
    jid = jid_of(text)
    return jid is not None and "/" not in jid and text.isprintable()
