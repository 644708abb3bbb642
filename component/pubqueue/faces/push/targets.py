"""Which URLs may be called, and which addresses. Pure.

A URL must begin with one of the operator's prefixes, compared part by part after parsing. When it is called, the very address
that is connected to must be a global one, or in one of the networks that the operator has listed: so a name that resolves
differently later has no effect.
"""

from __future__ import annotations

import re
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable

Network = IPv4Network | IPv6Network

MAX_URL: Final = 2048
PORTS: Final = {"http": 80, "https": 443}

_NUMERIC: Final = re.compile(r"(?:0x[0-9a-f]*|\d+)(?:\.(?:0x[0-9a-f]*|\d*))*\.?", re.IGNORECASE)
_HOST: Final = re.compile(r"[a-z0-9._-]{1,253}")
_PATH: Final = re.compile(r"[!-~]*")

LEADING_ELSEWHERE: Final = tuple(
    ip_network(text) for text in ("64:ff9b::/96", "2002::/16", "2001::/32", "::ffff:0:0/96")
)
"""Networks of IPv6 whose addresses lead to one of IPv4: NAT64, 6to4, Teredo, mapped."""


class TargetError(ValueError):
    """A text that is not a URL that can be called."""


class Target(Struct, frozen=True):
    """A URL, taken apart. `path` has no dots in it."""

    url: str
    scheme: str
    host: str
    port: int
    segments: tuple[str, ...]


def read(url: str) -> Target:
    """Return the target of a URL.

    Raises:
        TargetError: it is not an absolute http or https URL; or it has a user, a fragment, or a host that is a number in an
            odd form.

    """
    if len(url) > MAX_URL or not _PATH.fullmatch(url) or "\\" in url:
        raise TargetError("the URL has characters that a URL does not have, or is too long")
    try:
        parts = urlsplit(url)
        scheme, port = parts.scheme.lower(), parts.port
    except ValueError:
        raise TargetError("the URL cannot be read") from None
    if scheme not in PORTS or not parts.hostname:
        raise TargetError("the URL begins with http:// or https:// and a host")
    if "@" in parts.netloc or "#" in url:
        raise TargetError("the URL has neither a user nor a fragment")
    if port == 0:
        raise TargetError("the URL has no such port")
    host = _host(parts.hostname, parts.netloc)
    return Target(url, scheme, host, port or PORTS[scheme], _segments(parts.path))


def _host(host: str, netloc: str) -> str:
    host = host.lower()
    if netloc.startswith("["):
        try:
            return str(IPv6Address(host))
        except ValueError:
            raise TargetError("the host is not an address") from None
    if _NUMERIC.fullmatch(host):
        try:
            canonical = str(IPv4Address(host))
        except ValueError:
            canonical = ""
        if canonical != host:
            raise TargetError("an address is written as four decimal numbers")
        return host
    if not _HOST.fullmatch(host):
        raise TargetError("the host is not a name")
    return host.rstrip(".")


def _segments(path: str) -> tuple[str, ...]:
    """Return the segments of a path after dots are removed (RFC 3986 5.2.4); encoded dots count as dots."""
    found: list[str] = []
    for segment in path.split("/")[1:]:
        plain = re.sub("%2e", ".", segment, flags=re.IGNORECASE)
        if plain == "..":
            found = found[:-1]
        elif plain != ".":
            found.append(segment)
    return tuple(found)


def is_allowed(target: Target, prefixes: Iterable[Target]) -> bool:
    """Return whether one of the prefixes allows the target: the same scheme, host and port, and a path that begins with its segments."""
    return any(
        (one.scheme, one.host, one.port) == (target.scheme, target.host, target.port)
        and _begins(target.segments, one.segments)
        for one in prefixes
    )


def _begins(segments: tuple[str, ...], with_: tuple[str, ...]) -> bool:
    wanted = with_[:-1] if with_ and not with_[-1] else with_  # a slash at the end
    return segments[: len(wanted)] == wanted


def may_connect(address: str, networks: Iterable[Network]) -> bool:
    """Return whether this very address may be connected to."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if any(found in network for network in networks):
        return True
    if isinstance(found, IPv6Address) and any(found in one for one in LEADING_ELSEWHERE):
        return False
    return found.is_global and not found.is_multicast
