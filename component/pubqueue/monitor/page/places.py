"""Where a request comes from, and the page to which a login returns."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from pubqueue.config import checks
from pubqueue.faces.http.host import split

if TYPE_CHECKING:
    from aiohttp import web

    from pubqueue.config.checks import Networks

PLACES: Final = frozenset({"./", "queue", "items", "item", "reasons", "ask"})
"""Pages to which a login returns."""

MAX_PLACE_LENGTH: Final = 4_000
"""Maximum number of characters of an address to which a login returns."""


def place_of(request: web.Request) -> str:
    """Return the requested page, as a link from any other page has it; the first page if the address is not a page."""
    page = request.path.rpartition("/")[2] or "./"
    query = request.rel_url.raw_query_string
    return known_place(f"{page}?{query}" if query else page)


def referring(request: web.Request) -> str:
    """Return our page from which a form was sent; the first page if the request does not name one."""
    there = split(request.headers.get("Referer", ""))
    if there is None or there.netloc != request.host:
        return "./"
    page = there.path.rpartition("/")[2]
    return known_place(f"{page}?{there.query}" if there.query else page)


def known_place(text: str) -> str:
    """Return the page to which a login returns: one of ours, else the first one; never a page of another site."""
    page, _, query = text.partition("?")
    fits = page in PLACES and len(text) <= MAX_PLACE_LENGTH and re.fullmatch(r"[!-~]*", query)
    return text if fits else "./"


def login_from(place: str) -> str:
    """Return the address of the login page, from which the user returns to this page."""
    return "login" if place == "./" else f"login?{urlencode({'to': place})}"


def is_from_here(request: web.Request) -> bool:
    """Return whether a form was sent from a page of this host, by the headers of the browser."""
    if request.headers.get("Sec-Fetch-Site", "same-origin") not in {"same-origin", "none"}:
        return False
    origin = request.headers.get("Origin")
    if origin is None:
        return True
    parts = split(origin)
    return parts is not None and parts.netloc == request.host


def is_private(request: web.Request) -> bool:
    """Return whether the browser's connection uses TLS, to a proxy or to us."""
    return request.secure or request.headers.get("X-Forwarded-Proto", "") == "https"


def is_guarded(request: web.Request, proxies: Networks) -> bool:
    """Return whether this connection may carry a password: with TLS, from this host, or from a configured proxy."""
    return request.secure or checks.is_trusted(request.remote or "", proxies)


def address_of(request: web.Request, proxies: Networks = ()) -> str:
    """Return the address of the client.

    A proxy on this host, or a configured proxy, is trusted to name its client: the last address of `X-Forwarded-For`, which the
    proxy added itself. From any other address the header cannot be trusted.
    """
    remote = request.remote or ""
    forwarded = request.headers.get("X-Forwarded-For", "").rpartition(",")[2].strip()
    believed = checks.address_of(forwarded) is not None and checks.is_trusted(remote, proxies)
    return forwarded if believed else remote
