"""Targets of pushes: which may be called, how a call is signed, what an answer means. Pure."""

from __future__ import annotations

import hmac
import re
from base64 import b64encode
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import Enum, unique
from hashlib import sha256
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


# Signatures of pushes, by the Standard Webhooks specification: an HMAC-SHA-256 over id, time and body.

PREFIX = "whsec_"


def secret_of(key: bytes, registration: str) -> bytes:
    """Return the secret of a registration: it is derived from the service's own secret, so it is not stored."""
    return hmac.digest(key, f"push\n{registration}".encode(), sha256)


def written(secret: bytes) -> str:
    """Return a secret in its display form."""
    return PREFIX + b64encode(secret).decode()


def signed(secret: bytes, item: str, seconds: int, body: bytes) -> dict[str, str]:
    """Return the headers that sign a push."""
    content = f"{item}.{seconds}.".encode() + body
    signature = b64encode(hmac.digest(secret, content, sha256)).decode()
    return {
        "webhook-id": item,
        "webhook-timestamp": f"{seconds}",
        "webhook-signature": f"v1,{signature}",
    }


# Which URLs may be called, and which addresses. Pure.
#
# A URL must begin with one of the operator's prefixes, compared part by part after parsing. When it is called, the very address
# that is connected to must be a global one, or in one of the networks that the operator has listed: so a name that resolves
# differently later has no effect.

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


# The settings of pushes: which targets may be called, and for how long.


class PushTerms(Struct, frozen=True, kw_only=True):
    """Which targets may be called, for how many seconds, and after how many failures in a row no more; 0: always."""

    push_to: tuple[Target, ...] = ()
    networks: tuple[Network, ...] = ()
    timeout: float = 30.0
    retries: int = 10


# The meaning of a target's answer: a table of statuses. Pure.

MAX_RETRY: Final = 3600.0
"""The maximum seconds for which a target may pause its pushes."""


@unique
class Verdict(Enum):
    """The effect on the message, and on the registration."""

    DONE = "done"
    FOLLOW = "follow"
    """The target names another URL, which is called at once."""
    LATER = "later"
    """The message is released, and nothing is pushed for a while."""
    GONE = "gone"
    """The registration ends."""
    BAD = "bad"
    """The message is rejected, and dies."""
    DISABLED = "disabled"
    """The message is released, and the registration is disabled."""
    AGAIN = "again"
    """The message is released for a while, without a failure of its own; it counts as one of the registration."""
    FAILED = "failed"
    """The attempt is a failure of the message."""


class Outcome(Struct, frozen=True):
    """The result of a push: the verdict, its reason for operators, seconds to wait, and the URL for the next message."""

    verdict: Verdict
    reason: str = ""
    wait: float = 0.0
    following: str = ""


BAD: Final = frozenset({400, *range(411, 417), 422})
DISABLING: Final = frozenset({401, 402, 403, 405, 407, 417, 505})
DONE: Final = frozenset({*range(200, 300), 303, 304})
FOLLOWED: Final = frozenset({307, 308})
BUSY: Final = frozenset({429, 503})
GONE: Final = 410


def verdict_of(status: int, *, has_retry: bool = False) -> Verdict:
    """Return the meaning of a status."""
    if status in DONE:
        return Verdict.DONE
    if status in FOLLOWED:
        return Verdict.FOLLOW
    if status in BUSY and has_retry:
        return Verdict.LATER
    if status == GONE:
        return Verdict.GONE
    if status in BAD:
        return Verdict.BAD
    return Verdict.DISABLED if status in DISABLING else Verdict.FAILED


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds of `Retry-After`, up to an hour, None without one that can be read (RFC 9110 10.2.3)."""
    text = headers.get("Retry-After", "").strip()
    if text.isdecimal() and text.isascii():
        return min(float(text[:9]), MAX_RETRY)
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return min(max(0.0, (moment - datetime.fromtimestamp(now, UTC)).total_seconds()), MAX_RETRY)
