"""How long a client waits for a message: `Accept-Wait`, `X-RS-Wait`, or `Prefer: wait` (RFC 7240)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pubqueue.faces.rest.http.problems import bad_request

if TYPE_CHECKING:
    from multidict import CIMultiDictProxy

_SECONDS: Final = re.compile(r"\d{1,9}(?:\.\d{0,9})?")
_PREFERENCE: Final = re.compile(r'(?:^|,)\s*wait\s*=\s*"?([^",;]*)"?', re.IGNORECASE)

HEADERS: Final = ("Accept-Wait", "X-RS-Wait")


class Wait(Struct, frozen=True):
    """How many seconds a request waits, and the value of `Preference-Applied`, empty without a preference."""

    seconds: float
    applied: str = ""


def wait_of(headers: CIMultiDictProxy[str], longest: float) -> Wait:
    """Return how long the request waits: the first of the headers counts, up to `longest` seconds.

    Raises:
        ProblemError: it is not a number of seconds.

    """
    for name in HEADERS:
        if (text := headers.get(name)) is not None:
            return Wait(min(_seconds(text, name), longest))
    text = next(
        (found[1] for text in headers.getall("Prefer", ()) if (found := _PREFERENCE.search(text))),
        None,
    )
    if text is None:
        return Wait(0.0)
    seconds = min(_seconds(text, "Prefer: wait"), longest)
    return Wait(seconds, f"wait={seconds:g}")


def _seconds(text: str, name: str) -> float:
    if not _SECONDS.fullmatch(text.strip()):
        raise bad_request(f"{name} is a number of seconds")
    return float(text)
