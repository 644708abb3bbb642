"""Absolute links (RFC 8288), and what they begin with: a setting, what a trusted proxy reports, or the request itself."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from msgspec import Struct

from pubqueue.faces.http.peers import is_trusted
from pubqueue.faces.http.urls import split
from pubqueue.faces.rest.http.problems import bad_request

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pubqueue.faces.rest.terms import RestTerms

HOST: Final = re.compile(r"(?:\[[0-9A-Fa-f:.]{1,45}\]|[A-Za-z0-9.-]{1,255})(?::[0-9]{1,5})?")
_PREFIX: Final = re.compile(r"(?:/[A-Za-z0-9._~!$&'()*+,;=:@%-]+)*/?")
_PAIR: Final = re.compile(r'\s*([!#-\'*+\-.^-z|~\w]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;,"]*))\s*')


class Link(Struct, frozen=True):
    """A link of an answer."""

    rel: str
    url: str
    type: str = ""

    def __str__(self) -> str:
        """Return the value of a field `Link`."""
        kind = f'; type="{self.type}"' if self.type else ""
        return f'<{self.url}>; rel="{self.rel}"{kind}'


def path(*segments: str) -> str:
    """Return a path of these segments, each percent-encoded: a slash in a name is %2F."""
    return "".join(["/" + quote(segment, safe="") for segment in segments])


def base_of(headers: Mapping[str, str], peer: str, terms: RestTerms, *, is_private: bool) -> str:
    """Return what absolute links begin with, without a slash at the end.

    Raises:
        ProblemError: the host in the request is not one.

    """
    if terms.base_url:
        return terms.base_url.rstrip("/")
    scheme, host, prefix = "https" if is_private else "http", headers.get("Host", ""), ""
    if terms.proxies and is_trusted(peer, terms.proxies, loopback=False):
        scheme, host, prefix = _reported(headers, scheme, host)
    if scheme not in {"http", "https"} or not HOST.fullmatch(host) or split(f"//{host}") is None:
        raise bad_request("the host of the request is not the name or the address of a host")
    if not _PREFIX.fullmatch(prefix):
        raise bad_request("X-Forwarded-Prefix is not a path")
    return f"{scheme}://{host}{prefix.rstrip('/')}"


def _reported(headers: Mapping[str, str], scheme: str, host: str) -> tuple[str, str, str]:
    """Return scheme, host and prefix as the proxy reports them: `Forwarded` (RFC 7239), or else `X-Forwarded-*`."""
    forwarded = headers.get("Forwarded")
    if forwarded is not None:
        element = last_element(forwarded)
        return element.get("proto", scheme).lower(), element.get("host", host), ""
    return (
        headers.get("X-Forwarded-Proto", scheme).rpartition(",")[2].strip().lower(),
        headers.get("X-Forwarded-Host", host).rpartition(",")[2].strip(),
        headers.get("X-Forwarded-Prefix", "").rpartition(",")[2].strip(),
    )


def last_element(forwarded: str) -> dict[str, str]:
    """Return the pairs of the last element of a field `Forwarded`, which the next proxy has added.

    Raises:
        ProblemError: it cannot be read.

    """
    found: dict[str, str] = {}
    at = 0
    while at < len(forwarded):
        pair = _PAIR.match(forwarded, at)
        if pair is None:
            raise bad_request("Forwarded cannot be read")
        value = pair[3] if pair[2] is None else re.sub(r"\\(.)", r"\1", pair[2])
        found[pair[1].lower()] = value
        at = pair.end()
        if at < len(forwarded):
            if forwarded[at] not in ";,":
                raise bad_request("Forwarded cannot be read")
            if forwarded[at] == ",":
                found = {}
            at += 1
    return found
