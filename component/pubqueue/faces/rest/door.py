"""Lets requests of REST in, and finds who sends them."""

from __future__ import annotations

import asyncio
import math
from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import structlog
from aiohttp import web

from pubqueue.accounts.accounts import Proven
from pubqueue.accounts.credentials import credentials_in
from pubqueue.engine.connections import HttpRequests
from pubqueue.engine.observe import Traffic
from pubqueue.faces.checks import is_trusted
from pubqueue.faces.http import host
from pubqueue.faces.http.host import client, connection, is_same_origin, unauthorized
from pubqueue.faces.http.problems import ProblemError, bad_request, not_found, unavailable
from pubqueue.faces.rest import exchange
from pubqueue.faces.rest.exchange import Exchange, answer, too_large
from pubqueue.faces.rest.face import RestFace
from pubqueue.faces.rest.links import SAFE, Routes, base_of, beyond_words
from pubqueue.faces.rest.settings import WORD
from pubqueue.logs import fault

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from multidict import CIMultiDictProxy

    from pubqueue.accounts.accounts import Accounts
    from pubqueue.faces.checks import Networks
    from pubqueue.faces.rest.links import Profile, Resource
    from pubqueue.faces.rest.settings import RestSettings


# The part of the HTTP host that lets requests in: who it is, which route it is, and an answer in every case.
#
# The host listens before the broker is at work, so a face may be missing; then every request is answered 503.

log = structlog.get_logger(__name__)

TOO_MANY: Final = 429
INTERNAL: Final = 500
"""The status from which on the service is the cause."""

MAX_DETAIL: Final = 200
"""Characters of a sentence that repeats a name of the request."""

UNMATCHED: Final = "none"
"""The route of requests that match none, in metrics."""


class RestDoor:
    """Lets requests of these profiles in, to the face that serves at the time."""

    def __init__(self, profiles: Sequence[Profile]) -> None:
        self._profiles = profiles
        self._face: RestFace | None = None
        self.requests = HttpRequests()
        self.traffic = Traffic(requests=self.requests)

    def lead_to(self, faces: Iterable[object]) -> None:
        """Let requests in to the face of REST among these, once it serves."""
        self._face = next((face for face in faces if isinstance(face, RestFace)), None)
        if self._face is not None:
            self._face.waiting.counts = self.requests

    def proxies(self) -> Networks:
        """Return the proxies that are trusted to name their clients."""
        return () if self._face is None else self._face.settings.trusted

    def add_to(self, app: web.Application) -> None:
        """Serve the paths below the prefix of each profile."""
        for profile in self._profiles:
            handle = partial(self._handle, profile, Routes(profile.routes))
            prefix = profile.prefix.rstrip("/")
            for pattern in (prefix, prefix + r"/{tail:[\s\S]*}"):
                if pattern:
                    app.router.add_route("*", pattern, handle, expect_handler=self._expect)

    async def _expect(self, request: web.Request) -> web.StreamResponse | None:
        """Ask for the body of a request that waits for that, unless it is too large for any (RFC 9110 10.1.1)."""
        settings = None if self._face is None else self._face.settings
        size = request.content_length or 0
        if settings is not None and size > (
            limit := max(settings.max_body, settings.max_batch_body)
        ):
            return too_large(limit).response()
        if await host.meets_expectation(request):
            return None
        return ProblemError(417, "bad-request", "the expectation is not known").response()

    async def _handle(
        self, profile: Profile, routes: Routes, request: web.Request
    ) -> web.StreamResponse:
        word = UNMATCHED
        try:
            raw = request.rel_url.raw_path
            found = routes.find(raw[len(profile.prefix) :])
            if found is not None and (route := found[0].route(request.method)) is not None:
                word = route.word
            response = await self._answer(profile, found, request)
        except ProblemError as problem:
            response = problem.response()
        except (ConnectionError, asyncio.CancelledError, web.HTTPException):
            raise
        except Exception as problem:  # the boundary between requests: a fault in one ends that one
            log.error("request.failed", face=WORD, route=word, **fault(problem))  # noqa: TRY400  # no payload in a trace
            response = ProblemError(500, "fault").response()
        if self._face is not None and not response.prepared:
            exchange.share(response, request.headers, self._face.settings.cors_origins)
        self.requests.count(profile.name, word, response.status)
        return response

    async def _answer(
        self,
        profile: Profile,
        found: tuple[Resource, Mapping[str, str]] | None,
        request: web.Request,
    ) -> web.StreamResponse:
        face = self._face
        if face is None:
            raise unavailable()
        face.check_serving()
        at = connection()
        headers, settings = request.headers, face.settings
        base = base_of(headers, at.peer, settings, is_private=at.is_private)
        if request.method == "OPTIONS":
            if found is None:
                raise not_found()
            return answer(204, _allowed(found[0].allow, headers, settings))
        proven = await identify(headers, at.peer, face.accounts, settings, is_private=at.is_private)
        host.known(proven.account)
        check_origin(request.method, headers, base, settings)
        if found is None:
            raise not_found()
        resource, names = found
        route = resource.route(request.method)
        if route is None:
            raise not_allowed(resource.allow)
        listed = profile.words[route.method, route.word]
        if ignored := beyond_words(request.method, headers, request.query, listed):
            raise bad_request(f"{ignored} has no meaning here"[:MAX_DETAIL])
        exchange = Exchange(face, profile, route, request, names, base, proven)
        try:
            response: web.StreamResponse = await route.handler(exchange)
        except ProblemError as problem:
            if problem.status < INTERNAL and problem.status != TOO_MANY:
                # what has come, whatever its length is said to be
                face.broker.admission.refused(exchange.by, request.content.total_bytes)
            raise
        return response


def _allowed(
    allow: str, headers: Mapping[str, str], settings: RestSettings
) -> list[tuple[str, str]]:
    """Return the answer to OPTIONS."""
    shared = exchange.is_preflight("OPTIONS", headers)
    return [
        ("Allow", allow),
        *(exchange.preflight(headers, allow, settings.cors_origins) if shared else ()),
    ]


def not_allowed(allow: str, detail: str = "") -> ProblemError:
    """Return the problem of a method that a resource does not have."""
    return ProblemError(405, "method-not-allowed", detail, headers=[("Allow", allow)])


# Who sends a request: the account of a user.

_UNKNOWN: Final = "the credentials are not those of a user"


async def identify(
    headers: CIMultiDictProxy[str],
    peer: str,
    accounts: Accounts,
    settings: RestSettings,
    *,
    is_private: bool,
) -> Proven:
    """Return the user whose credentials a request has.

    Raises:
        ProblemError: it has none, or they are wrong, or may have been read by others on their way.

    """
    if not (is_private or settings.plain_http or is_trusted(peer, settings.trusted)):
        raise ProblemError(403, "forbidden", "credentials are accepted only over HTTPS")
    fields = headers.getall("Authorization", ())
    given = credentials_in(fields)
    if given is None:
        raise unauthorized(_UNKNOWN if fields else "the request has no credentials")
    found = await accounts.prove(given, face=WORD, peer=client())
    if isinstance(found, Proven):
        return found
    if found.wait:
        wait = [("Retry-After", f"{math.ceil(found.wait)}")]
        raise ProblemError(429, "too-many", "too many wrong credentials", headers=wait)
    raise unauthorized(_UNKNOWN)


def check_origin(
    method: str, headers: Mapping[str, str], base: str, settings: RestSettings
) -> None:
    """Refuse a request that a page of another site has caused: browsers send Basic credentials by themselves.

    Raises:
        ProblemError: it is one.

    """
    if method in SAFE:
        return
    origin = headers.get("Origin")
    if origin is not None and origin in settings.cors_origins:
        return
    is_ours = origin is None or is_same_origin(origin, urlsplit(base).netloc)
    if is_ours and headers.get("Sec-Fetch-Site", "none") != "cross-site":
        return
    raise ProblemError(403, "forbidden", "requests from pages of this origin are not accepted")
