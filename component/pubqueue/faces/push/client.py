"""The client that calls targets. It connects only to allowed addresses, and reads no answer for long."""

from __future__ import annotations

import asyncio
import socket
import time
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import aiohttp
from msgspec import Struct
from multidict import CIMultiDict

from pubqueue.faces.push.targets import (
    Outcome,
    PushTerms,
    TargetError,
    Verdict,
    is_allowed,
    may_connect,
    read,
    retry_after,
    verdict_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


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
