"""Where a request comes from, and where a log-in goes back to."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode, urlsplit

if TYPE_CHECKING:
    from aiohttp import web

PLACES: Final = frozenset({"./", "queue", "items", "item", "reasons", "ask"})
"""Pages to which a log-in returns."""

MAX_PLACE_LENGTH: Final = 4_000
"""Characters of an address to which a log-in returns."""


def place_of(request: web.Request) -> str:
    """Return which page was asked for, as it stands in a link from any other; the first one if it is none."""
    page = request.path.rpartition("/")[2] or "./"
    query = request.rel_url.raw_query_string
    return known_place(f"{page}?{query}" if query else page)


def referring(request: web.Request) -> str:
    """Return our page from which a form was sent; the first page if the request does not name it."""
    there = urlsplit(request.headers.get("Referer", ""))
    page = there.path.rpartition("/")[2]
    if there.netloc != request.host:
        return "./"
    return known_place(f"{page}?{there.query}" if there.query else page)


def known_place(text: str) -> str:
    """Return where a log-in returns to if that is a page of ours, else the first one: never another site's."""
    page, _, query = text.partition("?")
    fits = page in PLACES and len(text) <= MAX_PLACE_LENGTH and re.fullmatch(r"[!-~]*", query)
    return text if fits else "./"


def login_from(place: str) -> str:
    """Return the page to log in on, from which one comes back to the place."""
    return "login" if place == "./" else f"login?{urlencode({'to': place})}"


def is_from_here(request: web.Request) -> bool:
    """Return whether a form was sent from a page of this host, according to the browser's headers."""
    if request.headers.get("Sec-Fetch-Site", "same-origin") not in {"same-origin", "none"}:
        return False
    origin = request.headers.get("Origin")
    return origin is None or urlsplit(origin).netloc == request.host


def is_private(request: web.Request) -> bool:
    """Say whether a proxy, or we, speak TLS with the browser."""
    return request.secure or request.headers.get("X-Forwarded-Proto", "") == "https"


def address_of(request: web.Request) -> str:
    """Return the address of the client.

    A proxy on this host is believed whom it asks for: the last address of `X-Forwarded-For`, which it has added itself. From
    anywhere else the header is anybody's word.
    """
    remote = request.remote or ""
    forwarded = request.headers.get("X-Forwarded-For", "").rpartition(",")[2].strip()
    return forwarded if _is_address(forwarded) and _is_loopback(remote) else remote


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _is_loopback(text: str) -> bool:
    return _is_address(text) and ip_address(text).is_loopback
