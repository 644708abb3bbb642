"""Targets of pushes: which may be called, how a call is signed, what an answer means. Pure."""

from __future__ import annotations

import hmac
import re
from base64 import b64encode
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import Enum, unique
from fnmatch import fnmatchcase
from hashlib import sha256
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from msgspec import Struct

from pubqueue_xeps.wire.names import is_clean

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from urllib.parse import SplitResult


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
    digest = hmac.new(secret, f"{item}.{seconds}.".encode(), sha256)
    digest.update(body)  # may be large: it is not copied
    signature = b64encode(digest.digest()).decode()
    return {
        "webhook-id": item,
        "webhook-timestamp": f"{seconds}",
        "webhook-signature": f"v1,{signature}",
    }


# Which targets may be called, and at which addresses. Pure.
#
# The operator lists prefixes of URLs, or patterns of hosts and ports. A prefix is compared part by part after parsing. Whatever the
# list, the very address that is connected to is judged too, so a name that resolves differently later has no effect.

Network = IPv4Network | IPv6Network
Address = IPv4Address | IPv6Address

MAX_URL: Final = 2048
PORTS: Final = {"http": 80, "https": 443}

_NUMERIC: Final = re.compile(r"(?:0x[0-9a-f]*|\d+)(?:\.(?:0x[0-9a-f]*|\d*))*\.?", re.IGNORECASE)
_HOST: Final = re.compile(r"[a-z0-9._-]{1,253}")
_PATH: Final = re.compile(r"[!-~]*")

NO_ENDPOINT: Final = "push_endpoint must be an http(s) URL or host:port"

NAT64: Final = ip_network("64:ff9b::/96")
LEADING_ELSEWHERE: Final = (
    NAT64,
    *(ip_network(text) for text in ("2002::/16", "2001::/32", "::ffff:0:0/96")),
)
"""Networks of IPv6 whose addresses lead to one of IPv4: NAT64, 6to4, Teredo, mapped."""


class TargetError(ValueError):
    """A text that is not a target that can be called."""


class Target(Struct, frozen=True):
    """A target, taken apart. `scheme` is empty for a server of gRPC; `segments` have no dots in them."""

    url: str
    scheme: str
    host: str
    port: int
    segments: tuple[str, ...] = ()


def read(url: str) -> Target:
    """Return the target of a URL.

    Raises:
        TargetError: it is not an absolute http or https URL; or it has a user, a fragment, or a host that is a number in an
            odd form.

    """
    if len(url) > MAX_URL or not _PATH.fullmatch(url) or "\\" in url:
        raise TargetError("the URL has characters that a URL does not have, or is too long")
    parts, port = _split(url, "the URL cannot be read")
    scheme = parts.scheme
    if scheme not in PORTS or not parts.hostname:
        raise TargetError("the URL begins with http:// or https:// and a host")
    if "@" in parts.netloc or "#" in url:
        raise TargetError("the URL has neither a user nor a fragment")
    if port == 0:
        raise TargetError("the URL has no such port")
    host = _host(parts.hostname, parts.netloc)
    return Target(url, scheme, host, port or PORTS[scheme], _segments(parts.path))


def read_endpoint(text: str) -> Target:
    """Return the target of an http or https URL, or of `host:port` for a server of gRPC.

    Raises:
        TargetError: it is neither; or it has a user or a fragment.

    """
    if len(text) > MAX_URL or not is_clean(text) or " " in text:
        raise TargetError(NO_ENDPOINT)
    is_url = "://" in text
    parts, given = _split(text if is_url else f"//{text}", NO_ENDPOINT)
    port = PORTS.get(parts.scheme, 0) if given is None else given
    is_other = parts.scheme not in PORTS if is_url else bool(parts.path or parts.query)
    if is_other or not parts.hostname or not port:
        raise TargetError(NO_ENDPOINT)
    if "@" in parts.netloc or parts.fragment:
        raise TargetError("push_endpoint has neither a user nor a fragment")
    return Target(text, parts.scheme, parts.hostname.lower(), port)


def _split(url: str, problem: str) -> tuple[SplitResult, int | None]:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise TargetError(problem) from None
    return parts, port


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


def is_listed(target: Target, patterns: Iterable[str]) -> bool:
    """Return whether one of the patterns, `host:port` with wildcards, allows the target.

    A wildcard matches no address of this machine or its link: the operator has to write these out.
    """
    for pattern in patterns:
        host, _, port = pattern.rpartition(":")
        host = host.strip("[]").lower()
        same = target.host == host
        wild = not same and not _is_near(target.host) and fnmatchcase(target.host, host)
        if port in {"*", str(target.port)} and (same or wild):
            return True
    return False


def may_resolve_to(target: Target, address: str) -> bool:
    """Return whether the target may be called at an address of its name: a name may not lead to this machine unnoticed."""
    return target.host in {"localhost", address} or not _is_near(address)


def _is_near(host: str) -> bool:
    """Return whether a host is this machine, or can be reached only from this machine."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        one = _end_of(ip_address(host.partition("%")[0]))
    except ValueError:
        return False
    return one.is_loopback or one.is_link_local or one.is_multicast or one.is_unspecified


def _end_of(found: Address) -> Address:
    """Return the address of IPv4 that one of IPv6 leads to, or the address itself."""
    if isinstance(found, IPv4Address):
        return found
    if found in NAT64:
        return IPv4Address(int(found) & 0xFFFFFFFF)
    tunnel = found.teredo
    return found.ipv4_mapped or found.sixtofour or (tunnel[1] if tunnel else found)


class PushTerms(Struct, frozen=True, kw_only=True):
    """Prefixes of URLs, networks that are allowed although not global, seconds for a call, and failures in a row until a registration is disabled; 0: never."""

    push_to: tuple[Target, ...] = ()
    networks: tuple[Network, ...] = ()
    timeout: float = 30.0
    retries: int = 10
    hops: int = 3

    def target(self, url: str) -> Target | None:
        """Return the target of a URL, None if it may not be called."""
        try:
            found = read(url)
        except TargetError:
            return None
        return found if is_allowed(found, self.push_to) else None

    def may_connect(self, _target: Target, address: str) -> bool:
        """Return whether this very address may be connected to."""
        return may_connect(address, self.networks)


class EndpointTerms(Struct, frozen=True):
    """Patterns of hosts and ports. No redirect is followed, and the face bounds the time."""

    push_to: tuple[str, ...] = ()
    hops: int = 0
    timeout: float | None = None

    def target(self, url: str) -> Target | None:
        """Return the target of an endpoint, None if it may not be called."""
        try:
            found = read_endpoint(url)
        except TargetError:
            return None
        return found if is_listed(found, self.push_to) else None

    def may_connect(self, target: Target, address: str) -> bool:
        """Return whether the target may be called at this very address."""
        return may_resolve_to(target, address)


Terms = PushTerms | EndpointTerms
"""What a face may call."""


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
    BUSY = "busy"
    """A failure of the message, and the target wants fewer at a time."""


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
