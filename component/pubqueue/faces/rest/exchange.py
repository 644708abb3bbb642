"""One request with its account, for the handlers of all profiles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from aiohttp import web

from pubqueue.faces.http.urls import split
from pubqueue.faces.rest.http import bodies
from pubqueue.faces.rest.http.links import Link, path
from pubqueue.faces.rest.http.problems import ProblemError, not_found, refused
from pubqueue.faces.rest.http.routes import segments_of
from pubqueue.model.decision import Refusal, Refused
from pubqueue.model.entities import NodeName, PublishModel
from pubqueue.model.replies import RostersWanted
from pubqueue.rules.discovery import Describe

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pubqueue.accounts.accounts import Proven
    from pubqueue.engine.table import Request
    from pubqueue.faces.rest.face import RestFace
    from pubqueue.faces.rest.http.routes import Profile, Route
    from pubqueue.faces.rest.terms import RestTerms
    from pubqueue.model.decision import Reply
    from pubqueue.model.entities import Principal
    from pubqueue.model.replies import Described

DESTINATIONS = frozenset({"queues", "topics", "nodes"})
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
    def terms(self) -> RestTerms:
        """The settings of the face."""
        return self.face.terms

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
            raise not_found("there is no such destination")
        return described

    async def take(self, node: NodeName, seconds: float) -> Any:  # noqa: ANN401  # Taken
        """Take the next item of a queue, waiting up to so many seconds for it; a client that hangs up gets none.

        Raises:
            ProblemError: it is refused, or too many requests wait.

        """
        return self.granted(await self.face.waiting.take(self.by, node, seconds))

    def granted(self, reply: Reply) -> Any:  # noqa: ANN401  # callers know which reply a request has
        """Return the reply, unless it is a refusal.

        Raises:
            ProblemError: it is.

        """
        if isinstance(reply, Refused):
            raise refused(reply)
        if isinstance(reply, RostersWanted):
            raise ProblemError(403, "forbidden", "the rosters of the owners decide who may")
        return reply

    # --- the request ------------------------------------------------------------------------------

    async def body(self, limit: int | None = None) -> bytes:
        """Return the body, by default of up to `max_body` bytes.

        Raises:
            ProblemError: it is too large, or too slow.

        """
        most = self.terms.max_body if limit is None else limit
        await self.face.room()
        return await bodies.read(self.request, most, self.terms.body_timeout)

    async def no_body(self) -> None:
        """Refuse a body that is not empty.

        Raises:
            ProblemError: there is one.

        """
        await bodies.none(self.request)


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
    if kind is not None:
        made.headers["Content-Type"] = kind
    for name, value in headers:
        made.headers.add(name, value)
    for link in links:
        made.headers.add("Link", str(link))
    return made
