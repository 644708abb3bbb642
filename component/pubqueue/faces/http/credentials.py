"""Credentials of a request: Basic (RFC 7617, in UTF-8) or Bearer (RFC 6750)."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Final

from pubqueue.accounts.credentials import Bearer, Plain

if TYPE_CHECKING:
    from collections.abc import Sequence

CHALLENGES: Final = ('Basic realm="pubqueue", charset="UTF-8"', 'Bearer realm="pubqueue"')
"""The values of `WWW-Authenticate` in a 401 answer, one field for each."""


def credentials_of(fields: Sequence[str]) -> Plain | Bearer | None:
    """Return the credentials of a request, or None unless it has exactly one `Authorization` field and that is valid."""
    if len(fields) != 1:
        return None
    scheme, _, value = fields[0].strip().partition(" ")
    value = value.strip()
    match scheme.lower():
        case "bearer" if value:
            return Bearer(value)
        case "basic":
            return _basic(value)
        case _:
            return None


def _basic(value: str) -> Plain | None:
    try:
        text = base64.b64decode(value, validate=True).decode()
    except (binascii.Error, ValueError):
        return None
    name, colon, password = text.partition(":")
    return Plain(name, password) if colon else None
