"""Answers for pages of other origins, which are a closed list (Fetch 3.2: the CORS protocol).

A page of a listed origin sends its credentials itself, in `Authorization`. Credentials that a browser would add by itself,
cookies and remembered passwords, are never allowed, and no answer is for every origin.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    from aiohttp import web

_EXPOSED: Final = (
    *("Allow", "Content-Location", "ETag", "Link", "Location", "Preference-Applied"),
    *("Retry-After", "WWW-Authenticate", "Correlation-Id"),
)
"""Headers that a page may read, in addition to those with the following prefixes."""

_EXPOSED_GROUPS: Final = ("message-", "msg-", "trace")

_NAMES: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+(?:\s*,\s*[A-Za-z0-9!#$%&'*+.^_`|~-]+)*")
_MAX_NAMES: Final = 4096
"""Characters of the names of headers that a preflight may ask for."""

_MAX_AGE: Final = "600"
"""Seconds for which a browser remembers a preflight."""


def is_preflight(method: str, headers: Mapping[str, str]) -> bool:
    """Return whether a browser asks what a page may send."""
    return (
        method == "OPTIONS" and "Origin" in headers and "Access-Control-Request-Method" in headers
    )


def preflight(
    headers: Mapping[str, str], allow: str, origins: AbstractSet[str]
) -> list[tuple[str, str]]:
    """Return the headers about what a page of the origin may send to a resource; none for an origin that is not listed."""
    origin = headers["Origin"]
    if origin not in origins:
        return []
    found = [
        ("Access-Control-Allow-Origin", origin),
        ("Access-Control-Allow-Methods", allow),
        ("Access-Control-Max-Age", _MAX_AGE),
    ]
    wanted = headers.get("Access-Control-Request-Headers", "").strip()
    if len(wanted) <= _MAX_NAMES and _NAMES.fullmatch(wanted):
        found.append(("Access-Control-Allow-Headers", wanted))
    return found


def share(
    response: web.StreamResponse, headers: Mapping[str, str], origins: AbstractSet[str]
) -> None:
    """Let a page of a listed origin read the answer."""
    if not origins:
        return
    response.headers.add("Vary", "Origin")
    origin = headers.get("Origin")
    if origin is None or origin not in origins:
        return
    response.headers["Access-Control-Allow-Origin"] = origin
    if "Access-Control-Allow-Methods" in response.headers:
        return  # a preflight: no page reads it
    names = dict.fromkeys(
        name
        for name in response.headers
        if name in _EXPOSED or name.lower().startswith(_EXPOSED_GROUPS)
    )
    if names:
        response.headers["Access-Control-Expose-Headers"] = ", ".join(names)
