"""The client that calls targets: which may be called, how a call is signed, what an answer means."""

from __future__ import annotations

import asyncio
import hmac
import re
import socket
import time
from base64 import b64encode
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import Enum, unique
from hashlib import sha256
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import aiohttp
from msgspec import Struct
from multidict import CIMultiDict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


# The client that calls targets. It connects only to allowed addresses, and reads no answer for long.
#
# The check is where the socket is made: it sees each address that is connected to, of literals and of any answer of DNS.

MAX_ANSWER: Final = 65_536
"""Bytes of an answer that are read."""

MAX_HOPS: Final = 3
"""Redirects that are followed."""

LIMIT: Final = 64
LIMIT_PER_HOST: Final = 8
"""Connections in total, and to one host."""

BODY_TIMEOUT: Final = 1.0
"""Seconds for the body of an answer."""

MAX_REASON: Final = 200


class NotAllowedError(OSError):
    """The address may not be connected to."""


class Answer(Struct, frozen=True):
    """The answer of a target: the status, its headers, and its links by relation."""

    status: int
    headers: CIMultiDict[str]
    links: dict[str, str]


class PushClient:
    """Calls targets. `terms` apply from the next call on."""

    def __init__(self, terms: PushTerms) -> None:
        self.terms = terms
        self._session: aiohttp.ClientSession | None = None

    def session(self) -> aiohttp.ClientSession:
        """Return the session, which is opened with the first call."""
        if self._session is None:
            connector = aiohttp.TCPConnector(
                socket_factory=self._socket,
                use_dns_cache=False,
                limit=LIMIT,
                limit_per_host=LIMIT_PER_HOST,
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
                auto_decompress=False,
                raise_for_status=False,
            )
        return self._session

    def _socket(self, place: Sequence[Any]) -> socket.socket:
        family, kind, proto, _, address = place
        if not may_connect(str(address[0]), self.terms.networks):
            raise NotAllowedError("the address may not be connected to")
        made = socket.socket(family, kind, proto)
        made.setblocking(False)  # noqa: FBT003  # the name of the socket module
        return made

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def is_allowed(self, url: str) -> bool:
        """Return whether a URL may be called."""
        try:
            return is_allowed(read(url), self.terms.push_to)
        except TargetError:
            return False

    async def call(
        self, method: str, url: str, headers: Iterable[tuple[str, str]], body: bytes
    ) -> Answer | Outcome:
        """Call a target and return its answer, or a failure; redirects that keep the method are followed, each judged as the first URL."""
        try:
            async with asyncio.timeout(self.terms.timeout):
                for _ in range(MAX_HOPS + 1):
                    if not self.is_allowed(url):
                        return Outcome(Verdict.FAILED, "the target may not be called")
                    answer, to = await self._call(method, url, headers, body)
                    if verdict_of(answer.status) is not Verdict.FOLLOW:
                        return answer
                    headers = for_origin(headers, url, to)
                    url = to
        except TimeoutError:
            return Outcome(Verdict.FAILED, "no answer in time")
        except (OSError, aiohttp.ClientError, ValueError) as problem:
            return Outcome(Verdict.FAILED, _reason(problem))
        return Outcome(Verdict.FAILED, "too many redirects")

    async def _call(
        self, method: str, url: str, headers: Iterable[tuple[str, str]], body: bytes
    ) -> tuple[Answer, str]:
        session = self.session()
        async with session.request(
            method, url, data=body, headers=CIMultiDict(headers), allow_redirects=False
        ) as found:
            await self._drop(found)
            links = {str(key): str(link["url"]) for key, link in found.links.items()}
            to = str(found.url.join(_location(found)))
            return Answer(found.status, CIMultiDict(found.headers), links), to

    async def _drop(self, answer: aiohttp.ClientResponse) -> None:
        """Read the body of an answer up to a bound, so that the connection can be used again; a longer one closes it."""
        size = 0
        try:
            async with asyncio.timeout(BODY_TIMEOUT):
                async for part in answer.content.iter_any():
                    size += len(part)
                    if size > MAX_ANSWER:
                        break
                else:
                    return
        except (TimeoutError, OSError, aiohttp.ClientError):
            pass  # the status is what counts
        answer.close()


def for_origin(headers: Iterable[tuple[str, str]], known: str, to: str) -> list[tuple[str, str]]:
    """Return the headers for a URL to which another one redirects: credentials are only for the origin that they were given for."""
    before, after = (urlsplit(url)[:2] for url in (known, to))
    same = before == after
    return [row for row in headers if same or row[0].lower() != "authorization"]


def _location(answer: aiohttp.ClientResponse) -> Any:  # noqa: ANN401  # a URL of aiohttp's library
    return type(answer.url)(answer.headers.get("Location", ""))


def _reason(problem: BaseException) -> str:
    """Return the error in words, without any part of a message."""
    cause: BaseException | None = problem
    while cause is not None:
        if isinstance(cause, NotAllowedError):
            return "the address may not be connected to"
        cause = cause.__cause__ or getattr(cause, "os_error", None)
    return type(problem).__name__[:MAX_REASON]


def outcome_of(answer: Answer) -> Outcome:
    """Return the meaning of an answer."""
    wait = retry_after(answer.headers, time.time())
    verdict = verdict_of(answer.status, has_retry=wait is not None)
    following = answer.links.get("create-next", "") if verdict is Verdict.DONE else ""
    return Outcome(verdict, f"status {answer.status}", wait or 0.0, following)


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
