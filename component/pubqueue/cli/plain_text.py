"""Text of others that is safe for a terminal."""

from __future__ import annotations


def plain(text: str) -> str:
    """Return text that is safe for a terminal: control characters are escaped."""
    return "".join(
        sign if sign.isprintable() or sign == "\n" else repr(sign)[1:-1] for sign in text
    )
