"""Text for the wire: escaping and time stamps."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final
from xml.sax.saxutils import escape as _escape

from pubqueue.model.entities import Millis

ECHOED: Final = 4096
"""Maximum bytes of a request that an error repeats (RFC 6120 8.3.1: SHOULD); an error for a larger one has only the child's name."""

# attributes may contain `>`, and escaping it could make an answer longer than its request
_IN_ATTRIBUTES: Final = str.maketrans(
    {"&": "&amp;", "<": "&lt;", '"': "&quot;", "\t": "&#9;", "\n": "&#10;", "\r": "&#13;"}
)

_ODD: Final = re.compile(r'[&<"\t\n\r]')


def escape(text: str) -> str:
    """Return the text as character data."""
    return _escape(text, {"\r": "&#13;"})


def quoted(text: str) -> str:
    """Return the text escaped for double quotes."""
    return text.translate(_IN_ATTRIBUTES) if _ODD.search(text) else text


def in_quotes(text: str) -> str:
    """Return the text in the kind of quotes that it contains less often, so that it does not become longer."""
    if text.count('"') <= text.count("'"):
        return f'"{quoted(text)}"'
    return "'" + quoted(text).replace("'", "&apos;").replace("&quot;", '"') + "'"


@lru_cache(maxsize=4096)
def attribute(text: str) -> str:
    """Return a name escaped for double quotes. Results are cached, because names repeat.

    Use it only for names of limited length, such as JIDs and NodeIDs, which limits the cache.
    """
    return quoted(text)


@lru_cache(maxsize=1024)
def stamp(moment: Millis) -> str:
    """Return the time in XEP-0082 format, in UTC with milliseconds. Cached, because a batch has one time."""
    second, millis = divmod(moment, 1000)
    return f"{_second(second)}.{millis:03}Z"


_MOMENT: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})"
)


def moment_of(text: str) -> Millis | None:
    """Return the time in a text in XEP-0082 format, or None if it is not valid."""
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
    """Return the part of a request's child that an error repeats: all, or only the name if it is large."""
    if not large and len(child) <= ECHOED:
        return child
    bare = f'<{name} xmlns="{quoted(namespace)}"/>'.encode()
    return bare if len(bare) <= ECHOED else b""
