"""One request with its account: its body, how long it may wait, and the answer, for pages of other origins too."""

from __future__ import annotations

import asyncio
import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from aiohttp import web
from msgspec import Struct

from pubqueue.faces.flow import stepped
from pubqueue.faces.http import host
from pubqueue.faces.http.host import split
from pubqueue.faces.http.problems import ProblemError, bad_request, not_found, refused
from pubqueue.faces.listener.connection import HIGH
from pubqueue.faces.rest.items import body_in_steps, body_of
from pubqueue.faces.rest.links import Link, path, segments_of
from pubqueue.model.decision import Refusal, Refused
from pubqueue.model.entities import NodeName, PublishModel
from pubqueue.model.replies import RostersWanted
from pubqueue.rules.discovery import Describe
from pubqueue_xeps.wire.payloads.wrapper import STEP

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence

    from multidict import CIMultiDictProxy

    from pubqueue.accounts.accounts import Proven
    from pubqueue.faces.rest.face import RestFace
    from pubqueue.faces.rest.links import Handler, Profile, Route
    from pubqueue.faces.rest.settings import RestSettings
    from pubqueue.model.decision import Reply, Request
    from pubqueue.model.entities import Item, Principal
    from pubqueue.model.replies import Described


# One request with its account, for the handlers of all profiles.

KINDS: Final = {"queues": "queue", "topics": "topic"}
"""What the first segment of a path of a destination names."""

DESTINATIONS = frozenset({*KINDS, "nodes"})
"""The prefixes of paths of destinations; `nodes` is for replies, if the kind is not known."""


class Exchange:
    """A request of a user, matched with a route. Handlers return an answer or raise ProblemError."""

    def __init__(  # noqa: PLR0917  # what the door has found out
        self,
        face: RestFace,
        profile: Profile,
        route: Route,
        request: web.Request,
        names: Mapping[str, str],
        base: str,
        proven: Proven,
    ) -> None:
        self.face, self.profile, self.route = face, profile, route
        self.request, self.names, self.base, self.proven = request, names, base, proven
        self.by: Principal = face.accounts.principals.of(proven.account)
        """The principal: the bare account, which holds the locks."""

    @property
    def settings(self) -> RestSettings:
        """The settings of the face."""
        return self.face.settings

    @property
    def node(self) -> NodeName:
        """The node in the path."""
        return NodeName(self.names["node"])

    # --- links ------------------------------------------------------------------------------------

    def url(self, *segments: str, tail: str = "") -> str:
        """Return the absolute URL of a path below the prefix of the profile; `tail` is added as it is."""
        return f"{self.base}{self.profile.prefix}{path(*segments)}{tail}"

    def link(self, rel: str, *segments: str, tail: str = "", kind: str = "") -> Link:
        """Return an absolute link to a path below the prefix of the profile."""
        return Link(rel, self.url(*segments, tail=tail), kind)

    def destination(self, *, is_queue: bool) -> tuple[str, str]:
        """Return the segments of the path of the node."""
        return "queues" if is_queue else "topics", self.node

    def node_at(self, url: str) -> str | None:
        """Return the node whose destination has this URL, or that is posted to there; None for another URL."""
        root = urlsplit(f"{self.base}{self.profile.prefix}")
        parts = split(url)
        if parts is None or (parts.scheme, parts.netloc) not in {
            (root.scheme, root.netloc),
            ("", ""),
        }:
            return None
        if not parts.path.startswith(root.path + "/"):
            return None
        segments = segments_of(parts.path[len(root.path) :])
        if segments is None or len(segments) not in {2, 3} or segments[0] not in DESTINATIONS:
            return None
        return segments[1] if segments[2:] in {(), (self.profile.posting,)} else None

    def reply_url(self, node: str) -> str:
        """Return the URL to which replies to a node are posted."""
        return self.url("nodes", node, self.profile.posting)

    # --- the broker -------------------------------------------------------------------------------

    async def ask(self, request: Request, size: int = 0) -> Any:  # noqa: ANN401  # callers know which reply a request has
        """Have a request decided, and return the reply after its commit; `size` is the bytes of its payloads.

        Raises:
            ProblemError: it is refused.

        """
        return self.granted(await self.face.submit(self.by, request, size))

    async def described(self) -> Described:
        """Return the node of the path. A closed queue to which anyone may publish is shown too: its links are found there.

        Raises:
            ProblemError: it does not exist for the account.

        """
        look = Describe(self.by, self.node, manage=False, known=True)
        reply = await self.face.submit(self.by, look)
        if isinstance(reply, Refused) and reply.refusal is Refusal.CLOSED_NODE:
            shown: Described = await self.ask(Describe(self.by, self.node, manage=False))
            if shown.node.config.publish_model is PublishModel.OPEN:
                return shown
        described: Described = self.granted(reply)
        return described

    async def destined(self, *, is_queue: bool) -> Described:
        """Return the node of the path, if it is of this kind.

        Raises:
            ProblemError: it does not exist for the account.

        """
        described = await self.described()
        if described.node.config.queueing is not is_queue:
            raise self.no_destination()
        return described

    async def take(self, node: NodeName, seconds: float, by: Principal | None = None) -> Any:  # noqa: ANN401  # Taken
        """Take the next item of a queue, waiting up to so many seconds for it; a client that hangs up gets none.

        Raises:
            ProblemError: it is refused, too many requests wait, or the user is gone meanwhile.

        """
        await self.face.room(self.by)
        reply = await self.face.waiting.take(by or self.by, node, seconds, self.holds)
        if not self.holds():  # it may have ended since the broker gave the item
            self.face.waiting.give_back(by or self.by, reply)
        self.check_login()
        return self.granted(reply)

    async def wait(self, event: Awaitable[object]) -> None:
        """Wait for something else.

        Raises:
            ProblemError: the service stops, or the user is gone meanwhile.

        """
        waiting = asyncio.ensure_future(event)
        try:
            while not waiting.done():
                either = asyncio.wait(
                    (waiting, self.face.users_changed), return_when="FIRST_COMPLETED"
                )
                await self.face.waiting.until(either)
                self.check_login()
        finally:
            waiting.cancel()

    def holds(self) -> bool:
        """Return whether the login of the request is still valid."""
        return self.face.accounts.holds(self.proven)

    def check_login(self) -> None:
        """Refuse to continue for a user that was removed, or has another password.

        Raises:
            ProblemError: it was, or has.

        """
        if not self.holds():
            raise ProblemError(401, "unauthorized", "the user is gone, or has other credentials")

    def granted(self, reply: Reply, sizes: Sequence[int] = ()) -> Any:  # noqa: ANN401  # callers know which reply a request has
        """Return the reply, unless it is a refusal; `sizes` are those of the payloads as they would be stored.

        Raises:
            ProblemError: it is.

        """
        if isinstance(reply, Refused):
            if reply.refusal is Refusal.NODE_NOT_FOUND and not reply.reason:
                raise self.no_destination()
            raise refused(reply, sizes)
        if isinstance(reply, RostersWanted):
            raise ProblemError(403, "forbidden", "the rosters of the owners decide who may")
        return reply

    def no_destination(self) -> ProblemError:
        """Return the problem of a destination that does not exist for the account. It names what the path names."""
        if "node" not in self.names:
            return not_found()
        word = segments_of(self.request.rel_url.raw_path[len(self.profile.prefix) :])
        kind = KINDS.get(word[0], "destination") if word else "destination"
        return not_found(f"no such {kind}: {self.node}")

    async def rendered(self, item: Item, payload: bytes) -> tuple[str, bytes]:
        """Return content type and body of a message. A large one counts before it is decoded, and others have their turns meanwhile."""
        if len(payload) > HIGH:
            await host.expect(len(payload))
        if len(payload) <= STEP:
            return body_of(item, payload)
        async with self.face.rendering:
            return await stepped(body_in_steps(item, payload))

    # --- the request ------------------------------------------------------------------------------

    async def body(self, limit: int | None = None) -> bytes:
        """Return the body, by default of up to `max_body` bytes.

        Raises:
            ProblemError: it is too large, or too slow.

        """
        most = self.settings.max_body if limit is None else limit
        await self.face.room(self.by)
        return await read(self.request, most, self.settings.body_timeout)

    async def no_body(self) -> None:
        """Refuse a body that is not empty.

        Raises:
            ProblemError: there is one.

        """
        await none(self.request)


def of_either(handler: Callable[..., Awaitable[web.Response]]) -> tuple[Handler, Handler]:
    """Return a handler for queues, and the same for topics."""
    return partial(handler, is_queue=True), partial(handler, is_queue=False)


def answer(
    status: int,
    headers: Iterable[tuple[str, str]] = (),
    links: Iterable[Link] = (),
    *,
    body: bytes = b"",
    kind: str | None = None,
) -> web.Response:
    """Return an answer; each link is a field of its own."""
    made = web.Response(status=status, body=body or None)
    fields = made.headers
    if kind is not None:
        fields["Content-Type"] = kind
    fields.extend(headers)
    fields.extend([("Link", str(link)) for link in links])
    return made


# Bodies of requests, and the problems of those that are not accepted.


def too_large(limit: int) -> ProblemError:
    """Return the problem of a body above the limit, of which nothing more is read."""
    return ProblemError(
        413, "too-large", f"a body has up to {limit} bytes here", close=True, limit=limit
    )


async def read(request: web.Request, limit: int, seconds: float) -> bytes:
    """Return the body.

    Raises:
        ProblemError: it is too large, takes too long, or cannot be decoded.

    """
    try:
        return await host.read(request, limit, seconds)
    except host.BodyError as problem:
        raise _problem(problem.status, limit) from None


def _problem(status: int, limit: int) -> ProblemError:
    match status:
        case 413:
            return too_large(limit)
        case 408:
            return ProblemError(408, "too-slow", "the body took too long", close=True)
        case _:
            return bad_request("the body cannot be read")


async def none(request: web.Request, name: str = "body-not-expected") -> None:
    """Refuse a body that is not empty.

    Raises:
        ProblemError: there is one.

    """
    if request.content_length or (
        request.content_length is None and request.can_read_body and await request.content.readany()
    ):
        raise ProblemError(400, name, "the request must not have a body", close=True)


def only_if_new(header: str | None) -> bool:
    """Return whether something may be made only if it does not exist, by `If-None-Match`.

    Raises:
        ProblemError: the header names versions.

    """
    if header is not None and header.strip() != "*":
        raise bad_request("If-None-Match is * here")
    return header is not None


# Answers for pages of other origins, which are a closed list (Fetch 3.2: the CORS protocol).
#
# A page of a listed origin sends its credentials itself, in `Authorization`. Credentials that a browser would add by itself,
# cookies and remembered passwords, are never allowed, and no answer is for every origin.

_EXPOSED: Final = (
    *("Allow", "Content-Location", "ETag", "Link", "Location", "Preference-Applied"),
    *("Retry-After", "WWW-Authenticate", "Correlation-Id"),
)
"""Headers that a page may read, in addition to those with the following prefixes."""

_EXPOSED_GROUPS: Final = ("message-", "msg-", "trace")

_NAMES: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+(?:\s*,\s*[A-Za-z0-9!#$%&'*+.^_`|~-]+)*")
_MAX_NAMES: Final = 4096
"""Characters of the names of headers that a preflight may ask for."""

_MAX_AGE: Final = "600"
"""Seconds for which a browser remembers a preflight."""


def is_preflight(method: str, headers: Mapping[str, str]) -> bool:
    """Return whether a browser asks what a page may send."""
    return (
        method == "OPTIONS" and "Origin" in headers and "Access-Control-Request-Method" in headers
    )


def preflight(
    headers: Mapping[str, str], allow: str, origins: Collection[str]
) -> list[tuple[str, str]]:
    """Return the headers about what a page of the origin may send to a resource; none for an origin that is not listed."""
    origin = headers["Origin"]
    if origin not in origins:
        return []
    found = [
        ("Access-Control-Allow-Origin", origin),
        ("Access-Control-Allow-Methods", allow),
        ("Access-Control-Max-Age", _MAX_AGE),
    ]
    wanted = headers.get("Access-Control-Request-Headers", "").strip()
    if len(wanted) <= _MAX_NAMES and _NAMES.fullmatch(wanted):
        found.append(("Access-Control-Allow-Headers", wanted))
    return found


def share(
    response: web.StreamResponse, headers: Mapping[str, str], origins: Collection[str]
) -> None:
    """Let a page of a listed origin read the answer."""
    if not origins:
        return
    response.headers.add("Vary", "Origin")
    origin = headers.get("Origin")
    if origin is None or origin not in origins:
        return
    response.headers["Access-Control-Allow-Origin"] = origin
    if "Access-Control-Allow-Methods" in response.headers:
        return  # a preflight: no page reads it
    names = dict.fromkeys(
        name
        for name in response.headers
        if name in _EXPOSED or name.lower().startswith(_EXPOSED_GROUPS)
    )
    if names:
        response.headers["Access-Control-Expose-Headers"] = ", ".join(names)


# How long a client waits for a message: `Accept-Wait`, `X-RS-Wait`, or `Prefer: wait` (RFC 7240).

_SECONDS: Final = re.compile(r"\d{1,9}(?:\.\d{0,9})?")
_PREFERENCE: Final = re.compile(r'(?:^|,)\s*wait\s*=\s*"?([^",;]*)"?', re.IGNORECASE)

HEADERS: Final = ("Accept-Wait", "X-RS-Wait")


class Wait(Struct, frozen=True):
    """How many seconds a request waits, and the value of `Preference-Applied`, empty without a preference."""

    seconds: float
    applied: str = ""


def wait_of(headers: CIMultiDictProxy[str], longest: float) -> Wait:
    """Return how long the request waits: the first of the headers counts, up to `longest` seconds.

    Raises:
        ProblemError: it is not a number of seconds.

    """
    for name in HEADERS:
        if (text := headers.get(name)) is not None:
            return Wait(min(_seconds(text, name), longest))
    text = next(
        (found[1] for text in headers.getall("Prefer", ()) if (found := _PREFERENCE.search(text))),
        None,
    )
    if text is None:
        return Wait(0.0)
    seconds = min(_seconds(text, "Prefer: wait"), longest)
    return Wait(seconds, f"wait={seconds:g}")


def _seconds(text: str, name: str) -> float:
    if not _SECONDS.fullmatch(text.strip()):
        raise bad_request(f"{name} is a number of seconds")
    return float(text)
