"""What a content type says about a body: whether it can travel as XML, as JSON or as text."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, Literal

from pubqueue_xeps.wire.xml_escape import legal

HEADER: Final = "content-type"
"""The header of an item that has its content type, if its payload does not."""

XML: Final = "application/xml"
JSON: Final = "application/json"
TEXT: Final = "text/plain; charset=utf-8"

FORM: Final = "application/x-www-form-urlencoded"
KEPT: Final = 256
"""Characters of a content type that is remembered; so all that is remembered is bounded."""

_CHARSET: Final = re.compile(r';\s*charset\s*=\s*"?([^\s;"]*)', re.IGNORECASE)


PayloadForm = Literal["xml", "json", "text", "bytes"]
"""What a body of some content type may be stored as; of all but the last, what fits."""


def form_of(type: str | None) -> PayloadForm:  # noqa: A002 - the name of the attribute
    """Return what a body of this type may be stored as; its parameters do not count, but for another charset than UTF-8.

    Raises ValueError for a type that has a character which XML cannot carry.
    """
    if type is None:
        return "bytes"
    return remembered(type) if len(type) <= KEPT else _kind(type)


def _kind(type: str) -> PayloadForm:  # noqa: A002
    try:
        legal(type)
    except ValueError as error:
        raise ValueError(f"the content type {error}") from None
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
