"""Numbers in headers."""

from __future__ import annotations

import re
from typing import Final

from pubqueue.model.entities import Millis, seconds

_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,15}", re.ASCII)
_SECONDS: Final = re.compile(r"[0-9]{1,12}(\.[0-9]{1,9})?", re.ASCII)


class BadNumberError(ValueError):
    """The text is not such a number."""


def whole(text: str) -> int:
    """Return a whole number.

    Raises:
        BadNumberError: it is invalid.

    """
    if not _WHOLE.fullmatch(text):
        raise BadNumberError("a whole number")
    return int(text)


def count(text: str) -> int:
    """Return a whole number that is not below 0.

    Raises:
        BadNumberError: it is invalid.

    """
    number = whole(text)
    if number < 0:
        raise BadNumberError("a whole number from 0")
    return number


def span(text: str) -> Millis:
    """Return a span that is written in seconds.

    Raises:
        BadNumberError: it is invalid.

    """
    if not _SECONDS.fullmatch(text):
        raise BadNumberError("a number of seconds")
    return seconds(float(text))
