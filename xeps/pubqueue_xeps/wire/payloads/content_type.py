"""Reads content types: whether a body can be stored as XML, JSON or text."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, Literal

from pubqueue_xeps.wire.names import checked

HEADER: Final = "content-type"
"""The header that has an item's content type, if its payload does not."""

XML: Final = "application/xml"
JSON: Final = "application/json"
TEXT: Final = "text/plain; charset=utf-8"

FORM: Final = "application/x-www-form-urlencoded"
KEPT: Final = 256
"""Longer content types are not cached, so that the cache is bounded; in characters."""

_CHARSET: Final = re.compile(r';\s*charset\s*=\s*"?([^\s;"]*)', re.IGNORECASE)


PayloadForm = Literal["xml", "json", "text", "bytes"]
"""The form in which a body is stored; a body that does not fit one of the first three is stored as bytes."""


def form_of(type: str | None) -> PayloadForm:  # noqa: A002 - the name of the attribute
    """Return the form for bodies of this type; its parameters do not count, except for a charset other than UTF-8.

    Raises ValueError for a type with a character that no name has: it is in an attribute.
    """
    if type is None:
        return "bytes"
    return remembered(type) if len(type) <= KEPT else _kind(type)


def _kind(type: str) -> PayloadForm:  # noqa: A002
    checked(type, "the content type")
    if other_charset(type) is not None:
        return "bytes"
    media = _media(type)
    if media in {XML, "text/xml"} or media.endswith("+xml"):
        return "xml"
    if media == JSON:
        return "json"
    text = media.startswith("text/") or media.endswith("+json") or media == FORM
    return "text" if text else "bytes"


def other_charset(type: str) -> str | None:  # noqa: A002
    """Return the charset that a type names, or None if it names none but UTF-8."""
    return next((name for name in _CHARSET.findall(type) if name.lower() != "utf-8"), None)


def is_json(type: str | None) -> bool:  # noqa: A002
    """Return whether a body of this type is JSON."""
    media = "" if type is None else _media(type)
    return media == JSON or media.endswith("+json")


def _media(type: str) -> str:  # noqa: A002
    return type.partition(";")[0].strip().lower()


remembered = lru_cache(maxsize=1024)(_kind)
