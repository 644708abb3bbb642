"""Passwords are kept as scrypt strings, `$scrypt$ln=14,r=8,p=1$SALT$HASH` (the PHC format), and compared with them."""

from __future__ import annotations

import hmac
import re
import secrets
import unicodedata
from base64 import b64decode, b64encode
from hashlib import scrypt
from typing import Final

from msgspec import Struct

USUAL: Final = (14, 8, 1)
"""log2 of N, r and p of new strings: 16 MiB and some 50 ms."""

MIN_WORK: Final = 2**17
"""The minimum N * r * p of a string: that of the usual ones."""

MAX_WORK: Final = 2**21

MAX_MEMORY_BYTES: Final = 64 << 20
"""The maximum bytes for one comparison; there are up to four at a time."""

MAX_LENGTH: Final = 1024
"""The maximum bytes of a password."""

SHORTEST: Final = 8
"""The minimum characters of a new password."""

_FORMAT: Final = re.compile(
    r"\$scrypt\$ln=(\d{1,2}),r=(\d{1,3}),p=(\d{1,3})\$([A-Za-z0-9+/]{11,86})\$([A-Za-z0-9+/]{22,86})"
)

WANTED: Final = "a scrypt string, `$scrypt$ln=14,r=8,p=1$...`; `pubqueue user password` makes one"


class Scrypt(Struct, frozen=True):
    """The stored hash of a password."""

    ln: int
    r: int
    p: int
    salt: bytes
    digest: bytes

    def matches(self, password: str) -> bool:
        """Return whether it is the password, in the same time for every password."""
        found = _hash(password, self.salt, (self.ln, self.r, self.p), len(self.digest))
        return hmac.compare_digest(found, self.digest) and fits(password)

    @property
    def text(self) -> str:
        """Return the string for the configuration."""
        salt, digest = (b64encode(part).decode().rstrip("=") for part in (self.salt, self.digest))
        return f"$scrypt$ln={self.ln},r={self.r},p={self.p}${salt}${digest}"

    @property
    def cost(self) -> tuple[int, int, int]:
        """Return how much a comparison costs: log2 of N, r and p."""
        return self.ln, self.r, self.p

    def __rich_repr__(self) -> list[tuple[str, int]]:
        """Return the fields to show: only the cost."""
        return [("ln", self.ln), ("r", self.r), ("p", self.p)]

    def __repr__(self) -> str:
        """Show only the cost."""
        return f"Scrypt(ln={self.ln}, r={self.r}, p={self.p})"


def fits(password: str) -> bool:
    """Return whether it is short enough to be a password."""
    return len(_bytes(password)) <= MAX_LENGTH


def read(text: str) -> Scrypt:
    """Return the hash in a string of the configuration.

    Raises:
        ValueError: it is not a scrypt string, or costs too little or too much; the message does not contain it.

    """
    found = _FORMAT.fullmatch(text)
    if found is None:
        raise ValueError(f"must be {WANTED}")
    ln, r, p = (int(number) for number in found.group(1, 2, 3))
    work = (r * p) << ln
    if work < MIN_WORK:
        raise ValueError(f"ln={ln},r={r},p={p} is too weak: at least ln=14,r=8,p=1")
    if work > MAX_WORK or 128 * r << ln > MAX_MEMORY_BYTES:
        raise ValueError(f"ln={ln},r={r},p={p} costs too much: at most ln=16,r=8,p=4")
    try:
        salt, digest = (b64decode(part + "=" * (-len(part) % 4)) for part in found.group(4, 5))
    except ValueError:
        raise ValueError(f"must be {WANTED}") from None
    one = Scrypt(ln, r, p, salt, digest)
    if one.text != text:  # cut off, or written in an unusual way
        raise ValueError(f"must be {WANTED}")
    return one


def make(password: str) -> Scrypt:
    """Return the hash of a new password, with a random salt.

    Raises:
        ValueError: it is too short or too long.

    """
    if len(password) < SHORTEST:
        raise ValueError(f"a password has at least {SHORTEST} characters")
    if not fits(password):
        raise ValueError(f"a password has at most {MAX_LENGTH} bytes")
    salt = secrets.token_bytes(16)
    return Scrypt(*USUAL, salt, _hash(password, salt, USUAL, 32))


def decoy(cost: tuple[int, int, int] = USUAL) -> Scrypt:
    """Return a hash that no password matches, to compare at the same cost if there is no password."""
    return Scrypt(*cost, secrets.token_bytes(16), secrets.token_bytes(32))


def _bytes(password: str) -> bytes:
    # as in OpaqueString (RFC 8265): clients and terminals compose letters differently
    return unicodedata.normalize("NFC", password).encode("utf-8", "surrogatepass")


def _hash(password: str, salt: bytes, cost: tuple[int, int, int], length: int) -> bytes:
    ln, r, p = cost
    memory = (128 * r << ln) + 128 * r * p + (1 << 20)
    return scrypt(
        _bytes(password)[:MAX_LENGTH], salt=salt, n=1 << ln, r=r, p=p, maxmem=memory, dklen=length
    )
