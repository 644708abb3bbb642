"""One-off keys: they cost nothing until they are used, and are valid on every instance and over restarts.

A key is `{stamp}-{random}-{mac}`: seconds, a random number, and an HMAC over both and the purpose, with a secret that the store
keeps. The broker records its use, in the commit of the publish under it.
"""

from __future__ import annotations

import hmac
import re
import secrets
from typing import TYPE_CHECKING, Final

from pubqueue.model.entities import Millis, seconds

if TYPE_CHECKING:
    from pubqueue.model.entities import Jid, NodeName

SECRET_BYTES: Final = 32
MAC_DIGITS: Final = 20
"""Hexadecimal digits of the MAC: 80 bits."""

AHEAD: Final = seconds(300)
"""How far the clock of another instance may be ahead."""

_KEY: Final = re.compile(r"([0-9a-z]{1,12})-([0-9a-f]{24})-([0-9a-f]{20})")
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"


class OneOffKeys:
    """Makes and verifies keys with a secret. A key is for one purpose of one account at one node."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def make(self, now: Millis, account: Jid, node: NodeName, purpose: str) -> str:
        """Return a new key."""
        begun = f"{_base36(now // 1000)}-{secrets.token_hex(12)}"
        return f"{begun}-{self._mac(begun, account, node, purpose)}"

    def is_valid(  # noqa: PLR0917  # what a key is for, and when
        self, key: str, now: Millis, lifetime: Millis, account: Jid, node: NodeName, purpose: str
    ) -> bool:
        """Return whether the key was made for this, and up to `lifetime` ago."""
        found = _KEY.fullmatch(key)
        if found is None:
            return False
        expected = self._mac(f"{found[1]}-{found[2]}", account, node, purpose)
        if not hmac.compare_digest(expected, found[3]):
            return False
        made = int(found[1], 36) * 1000
        return made - AHEAD <= now < made + lifetime + 1000

    def _mac(self, begun: str, account: Jid, node: NodeName, purpose: str) -> str:
        content = f"{begun}\n{node}\n{purpose}\n{account}"  # names have no control characters
        return hmac.digest(self._secret, content.encode(), "sha256").hex()[:MAC_DIGITS]


def _base36(number: int) -> str:
    text = ""
    while number:
        number, digit = divmod(number, 36)
        text = _DIGITS[digit] + text
    return text or "0"
