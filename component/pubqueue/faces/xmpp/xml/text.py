"""Text for the wire: escaping and time stamps."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final
from xml.sax.saxutils import escape as _escape

from pubqueue.core.model import Millis

ECHOED: Final = 4096
"""Bytes of a request that an error repeats (RFC 6120 8.3.1: SHOULD); of a larger one only its child's name."""

# `>` may stand in an attribute, and escaped it would make an answer longer than its request
_IN_ATTRIBUTES: Final = str.maketrans(
    {"&": "&amp;", "<": "&lt;", '"': "&quot;", "\t": "&#9;", "\n": "&#10;", "\r": "&#13;"}
)

_ODD: Final = re.compile(r'[&<"\t\n\r]')


def escape(text: str) -> str:
    """Return the text as character data."""
    return _escape(text, {"\r": "&#13;"})


def quoted(text: str) -> str:
    """Return the text for between double quotes."""
    return text.translate(_IN_ATTRIBUTES) if _ODD.search(text) else text


def in_quotes(text: str) -> str:
    """Return the text with its quotes, those of which it has fewer: so it is no longer than it came."""
    if text.count('"') <= text.count("'"):
        return f'"{quoted(text)}"'
    return "'" + quoted(text).replace("'", "&apos;").replace("&quot;", '"') + "'"


@lru_cache(maxsize=4096)
def attribute(text: str) -> str:
    """Return a name for between double quotes. Kept, for the same ones come again and again.

    Only for names that are bounded, such as JIDs and NodeIDs: else what is kept would not be.
    """
    return quoted(text)


@lru_cache(maxsize=1024)
def stamp(moment: Millis) -> str:
    """Return the moment as XEP-0082 writes it, to the millisecond, in UTC. Kept: a batch has one time."""
    second, millis = divmod(moment, 1000)
    return f"{_second(second)}.{millis:03}Z"


_MOMENT: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})"
)


def moment_of(text: str) -> Millis | None:
    """Return the moment that XEP-0082 writes so, None if it is none."""
    if _MOMENT.fullmatch(text) is None:
        return None
    try:
        return Millis(int(datetime.fromisoformat(text).timestamp() * 1000))
    except (ValueError, OverflowError):
        return None


@lru_cache(maxsize=1024)
def _second(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).replace(tzinfo=None).isoformat()


def echo(child: bytes, name: str, namespace: str, *, large: bool = False) -> bytes:
    """Return what an error repeats of a request's child: all of it, or of a large one its name."""
    if not large and len(child) <= ECHOED:
        return child
    bare = f'<{name} xmlns="{quoted(namespace)}"/>'.encode()
    return bare if len(bare) <= ECHOED else b""
