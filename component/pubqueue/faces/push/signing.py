"""Signatures of pushes, by the Standard Webhooks specification: an HMAC-SHA-256 over id, time and body."""

from __future__ import annotations

import hmac
from base64 import b64encode
from hashlib import sha256

PREFIX = "whsec_"


def secret_of(key: bytes, registration: str) -> bytes:
    """Return the secret of a registration: it is derived from the service's own secret, so it is not stored."""
    return hmac.digest(key, f"push\n{registration}".encode(), sha256)


def written(secret: bytes) -> str:
    """Return a secret in its display form."""
    return PREFIX + b64encode(secret).decode()


def signed(secret: bytes, item: str, seconds: int, body: bytes) -> dict[str, str]:
    """Return the headers that sign a push."""
    content = f"{item}.{seconds}.".encode() + body
    signature = b64encode(hmac.digest(secret, content, sha256)).decode()
    return {
        "webhook-id": item,
        "webhook-timestamp": f"{seconds}",
        "webhook-signature": f"v1,{signature}",
    }
