"""Values of headers: percent-encoded outside visible ASCII, numbers, spans and moments."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote_to_bytes

from pubqueue.faces.rest.http.problems import bad_request
from pubqueue.model.entities import Millis, seconds

if TYPE_CHECKING:
    from pubqueue.model.entities import Jid

CARRIED: Final = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "%")
"""Characters that are not encoded in `Message-*`."""

TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")

_SPAN: Final = re.compile(r"\d{1,12}(?:\.\d{0,9})?")
_WHOLE: Final = re.compile(r"[+-]?\d{1,9}")


def encoded(text: str) -> str:
    """Return a value of `Message-*`: characters that a header cannot carry are percent-encoded as UTF-8."""
    if text.isascii() and text.isprintable() and "%" not in text and text == text.strip():
        return text
    body = text.strip(" ")
    before = len(text) - len(text.lstrip(" "))
    after = len(text) - len(text.rstrip(" ")) if body else 0
    return "%20" * before + quote(body, safe=CARRIED) + "%20" * after


def decoded(text: str, name: str) -> str:
    """Return the meaning of a value of `Message-*`.

    Raises:
        ProblemError: it is not UTF-8, or has a NUL.

    """
    if "%" not in text and text.isascii():
        return text
    try:
        found = unquote_to_bytes(text.encode()).decode()
    except UnicodeError:
        raise bad_request(f"{name} is not UTF-8") from None
    return without_nul(found, name)


def without_nul(text: str, name: str) -> str:
    """Return the text, if every store can keep it.

    Raises:
        ProblemError: it has a NUL.

    """
    if "\0" in text:
        raise bad_request(f"{name} has a NUL character")
    return text


def plain(text: str, name: str) -> str:
    """Return a value as it is sent.

    Raises:
        ProblemError: it is not UTF-8.

    """
    try:
        text.encode()
    except UnicodeEncodeError:
        raise bad_request(f"{name} is not UTF-8") from None
    return str(text)


def whole(text: str, name: str) -> int:
    """Return a whole number.

    Raises:
        ProblemError: it is invalid.

    """
    if not _WHOLE.fullmatch(text.strip()):
        raise bad_request(f"{name} is a whole number")
    return int(text)


def span(text: str, name: str) -> Millis:
    """Return a number of seconds, with or without a fraction.

    Raises:
        ProblemError: it is invalid.

    """
    if not _SPAN.fullmatch(text.strip()):
        raise bad_request(f"{name} is a number of seconds")
    return seconds(float(text))


def moment(at: Millis) -> str:
    """Return a moment as RFC 3339 writes it."""
    when = datetime.fromtimestamp(at / 1000, UTC)
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def account(jid: Jid) -> str:
    """Return an account as the value of a header."""
    return encoded(jid)
