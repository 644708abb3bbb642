"""The key of a host: an operator who can read its file needs no password there.

The key itself is never sent. A request has a signature of its method, its target and its body, which holds once and for a minute; the answer
has one, too. So a foreign program that listens at the service's address while it is away learns nothing that it could use, and cannot pass for
the service.
"""

from __future__ import annotations

import hmac
import os
import re
import secrets
import stat
import time
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

SCHEME: Final = "Pubqueue-Key"
"""The scheme of the field `Authorization` of a signed request."""

PROOF: Final = "Authentication-Info"
"""The field of an answer with its signature (RFC 9110 11.6.3)."""

HOLDS: Final = 60.0
"""Seconds that a signed request holds."""

_KEY: Final = re.compile(r"[0-9a-f]{64}")
_PARTS: Final = re.compile(
    r"by=([a-z0-9._-]{1,32}), at=(\d{1,12}), once=([0-9a-f]{32}), body=([0-9a-f]{64}), mac=([0-9a-f]{64})"
)
_NO_NAME: Final = re.compile(r"[^a-z0-9._-]+")


class KeyFileError(Exception):
    """The file of a key cannot be used; the message is a sentence, and has nothing of the key."""


# The file: its owner alone can read it.


def made(path: Path) -> bytes:
    """Return the key of the file, which is made for the user of this process alone (mode 0600) if there is none.

    Raises:
        KeyFileError: it cannot be made or read, belongs to another user, or others can read it.

    """
    new = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        if not os.path.lexists(path):
            _write(new, f"{secrets.token_hex(32)}\n".encode())
            with suppress(FileExistsError):  # another instance was first: its key counts
                os.link(new, path)
    except OSError as problem:
        raise KeyFileError(f"{path} cannot be written: {problem.strerror}") from None
    finally:
        new.unlink(missing_ok=True)
    return read(path, owner=os.geteuid())


def _write(path: Path, text: bytes) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(file, "wb") as opened:
        opened.write(text)
        opened.flush()
        os.fsync(file)  # or a loss of power leaves an empty file under its name


def read(path: Path, owner: int | None = None) -> bytes:
    """Return the key of the file; with an `owner`, only if the file is that user's.

    Raises:
        KeyFileError: it cannot be read, is not the owner's, or others than its owner can read it.

    """
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as problem:
        raise KeyFileError(f"{path} cannot be read: {problem.strerror}") from None
    with os.fdopen(file, "rb") as opened:
        facts = os.fstat(opened.fileno())
        if not stat.S_ISREG(facts.st_mode) or stat.S_IMODE(facts.st_mode) & 0o077:
            raise KeyFileError(f"{path} has to be a file that only its owner can read (mode 0600)")
        if owner is not None and facts.st_uid != owner:
            raise KeyFileError(f"{path} belongs to another user than the service's")
        text = opened.read(100).decode("ascii", "replace").strip()
    if not _KEY.fullmatch(text):
        raise KeyFileError(f"{path} has no key; remove it, and the service makes a new one")
    return bytes.fromhex(text)


# Signatures of requests and of their answers.


class Claim(Struct, frozen=True):
    """What a signed request says of itself: who sends it, and the digest of its body."""

    by: str
    at: int
    once: str
    body: str
    mac: str


def digest_of(body: bytes) -> str:
    """Return the digest of a body, as a claim has it."""
    return sha256(body).hexdigest()


def signed(key: bytes, method: str, target: str, body: bytes, *, by: str) -> tuple[str, str]:
    """Return the field `Authorization` of a request, and the number by which its answer is signed.

    `by` is the user of the host, for the audit log.
    """
    name = _NO_NAME.sub("-", by.lower())[:32] or "-"
    claim = Claim(name, int(time.time()), secrets.token_hex(16), digest_of(body), "")
    words = f"by={claim.by}, at={claim.at}, once={claim.once}, body={claim.body}"
    return f"{SCHEME} {words}, mac={_mac(key, method, target, claim)}", claim.once


def claim_in(fields: Sequence[str]) -> Claim | None:
    """Return the claim in the fields `Authorization` of a request; None if there is none, or more than one field."""
    if len(fields) != 1:
        return None
    scheme, _, words = fields[0].partition(" ")
    found = _PARTS.fullmatch(words)
    if scheme != SCHEME or found is None:
        return None
    by, at, once, body, mac = found.groups()
    return Claim(by, int(at), once, body, mac)


def proof(key: bytes, once: str, status: int, body: bytes) -> str:
    """Return the field `Authentication-Info` of the answer to a signed request."""
    text = f"answer\n{once}\n{status}\n{digest_of(body)}"
    return f"mac={hmac.new(key, text.encode(), 'sha256').hexdigest()}"


def _mac(key: bytes, method: str, target: str, claim: Claim) -> str:
    text = f"request\n{method}\n{target}\n{claim.by}\n{claim.at}\n{claim.once}\n{claim.body}"
    return hmac.new(key, text.encode("utf-8", "surrogateescape"), "sha256").hexdigest()


class LocalKey:
    """Judges signed requests. `clock` returns the seconds since 1970."""

    def __init__(self, key: bytes, clock: Callable[[], float] = time.time) -> None:
        self._key, self._clock = key, clock
        self._used: dict[str, float] = {}

    def proves(self, claim: Claim, method: str, target: str) -> bool:
        """Return whether the request was signed with the key recently, and has not been sent before."""
        now = self._clock()
        right = _mac(self._key, method, target, claim)
        if not hmac.compare_digest(right, claim.mac) or abs(now - claim.at) > HOLDS:
            return False
        for once in [once for once, until in self._used.items() if until < now]:
            del self._used[once]
        if claim.once in self._used:
            return False
        self._used[claim.once] = claim.at + HOLDS + 1
        return True

    def proof(self, claim: Claim, status: int, body: bytes) -> str:
        """Return the field `Authentication-Info` of the answer."""
        return proof(self._key, claim.once, status, body)
