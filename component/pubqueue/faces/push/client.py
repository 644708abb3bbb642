"""The client that calls targets. It connects only to allowed addresses, and reads no answer for long."""

from __future__ import annotations

import asyncio
import socket
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from msgspec import Struct
from multidict import CIMultiDict

from pubqueue.faces.listener.connection import HIGH
from pubqueue.faces.push.targets import Outcome, Target, Verdict, retry_after, verdict_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pubqueue.faces.push.targets import Terms


# Names are looked up in threads of their own: a name may belong to a server that never answers, and the threads of the event loop
# are for work that ends.

LOOKUPS: Final = 16
"""Names that are looked up at a time, one for each host."""

_threads: Final = ThreadPoolExecutor(LOOKUPS, "push names")
_under_way: Final[dict[tuple[str, int], Future[list[str]]]] = {}


async def addresses_of(host: str, port: int) -> list[str]:
    """Return the addresses of a host; those who ask meanwhile get the same answer."""
    key = host, port
    if (found := _under_way.get(key)) is None:
        found = _under_way[key] = _threads.submit(_looked_up, host, port)
        found.add_done_callback(lambda _: _under_way.pop(key, None))
    return await asyncio.shield(asyncio.wrap_future(found))


def _looked_up(host: str, port: int) -> list[str]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        return []
    return [str(place[0]) for *_, place in found]


class Names(AbstractResolver):
    """Resolves names for the client."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Return the addresses of a name.

        Raises:
            OSError: it has none.

        """
        del family
        if not (found := await addresses_of(host, port)):
            raise OSError("the name has no address")
        families = [socket.AF_INET6 if ":" in one else socket.AF_INET for one in found]
        return [
            ResolveResult(hostname=host, host=one, port=port, family=kind, proto=0, flags=0)
            for one, kind in zip(found, families, strict=True)
        ]

    async def close(self) -> None:
        """Nothing is open."""


# The check is where the socket is made: it sees each address that is connected to, of literals and of any answer of DNS.

MAX_ANSWER: Final = 65_536
"""Bytes of an answer that are read."""

LIMIT: Final = 64
LIMIT_PER_HOST: Final = 8
"""Connections in total, and to one host, unless the face says otherwise; 0: any number."""

BODY_TIMEOUT: Final = 1.0
"""Seconds for the body of an answer."""

MAX_REASON: Final = 200

_called: Final[ContextVar[Target]] = ContextVar("called")
"""The target for which a socket is made."""


class NotAllowedError(OSError):
    """The address may not be connected to."""


class Answer(Struct, frozen=True):
    """The answer of a target: the status, its headers, and its links by relation."""

    status: int
    headers: CIMultiDict[str]
    links: dict[str, str]


class PushClient:
    """Calls targets. `terms` apply from the next call on."""

    def __init__(
        self, terms: Terms, *, limit: int = LIMIT, limit_per_host: int = LIMIT_PER_HOST
    ) -> None:
        self.terms = terms
        self._limits = limit, limit_per_host
        self._session: aiohttp.ClientSession | None = None

    def session(self) -> aiohttp.ClientSession:
        """Return the session, which is opened with the first call."""
        if self._session is None:
            limit, limit_per_host = self._limits
            connector = aiohttp.TCPConnector(
                socket_factory=self._socket,
                resolver=Names(),
                use_dns_cache=False,
                limit=limit,
                limit_per_host=limit_per_host,
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
        if not self.terms.may_connect(_called.get(), str(address[0])):
            raise NotAllowedError("the address may not be connected to")
        made = socket.socket(family, kind, proto)
        made.setblocking(False)  # noqa: FBT003  # the name of the socket module
        return made

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def address_of(self, target: Target) -> str | None:
        """Return the first address of a target that may be called, None if there is none: for those who connect by other means."""
        found = await addresses_of(target.host, target.port)
        return next((one for one in found if self.terms.may_connect(target, one)), None)

    async def call(
        self, method: str, url: str, headers: Iterable[tuple[str, str]], body: bytes
    ) -> Answer | Outcome:
        """Call a target and return its answer, or a failure; redirects that keep the method are followed, each judged as the first URL."""
        try:
            async with asyncio.timeout(self.terms.timeout):
                return await self._follow(method, url, headers, body)
        except TimeoutError:
            return Outcome(Verdict.FAILED, "no answer in time")

    async def _follow(
        self, method: str, url: str, headers: Iterable[tuple[str, str]], body: bytes
    ) -> Answer | Outcome:
        known = url
        for _ in range(self.terms.hops + 1):
            if (target := self.terms.target(url)) is None:
                return Outcome(Verdict.FAILED, "the target may not be called")
            headers = for_origin(headers, known, url)
            _called.set(target)
            try:
                answer, to = await self._call(method, url, headers, body)
            except (OSError, aiohttp.ClientError, ValueError) as problem:  # ValueError: of a URL
                return Outcome(Verdict.FAILED, _reason(problem))
            if verdict_of(answer.status) is not Verdict.FOLLOW:
                return answer
            known, url = url, to
        return Outcome(Verdict.FAILED, "too many redirects")

    async def _call(
        self, method: str, url: str, headers: Iterable[tuple[str, str]], body: bytes
    ) -> tuple[Answer, str]:
        session = self.session()
        data = body if len(body) <= HIGH else BytesIO(body)  # in pieces, and not copied as a whole
        async with session.request(
            method, url, data=data, headers=CIMultiDict(headers), allow_redirects=False
        ) as found:
            await self._drop(found)
            links = {str(key): str(link["url"]) for key, link in found.links.items()}
            follows = verdict_of(found.status) is Verdict.FOLLOW
            to = str(found.url.join(_location(found))) if follows else ""
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
