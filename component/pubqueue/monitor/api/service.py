"""The addresses below `/api/`, and who calls them."""

from __future__ import annotations

from hashlib import sha256
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, urlencode

import msgspec
import structlog
from aiohttp import web
from msgspec import Struct
from msgspec.structs import replace

from pubqueue.accounts.accounts import BY_KEY, Denied
from pubqueue.accounts.credentials import credentials_in
from pubqueue.accounts.local_key import PROOF, Claim, claim_in, digest_of
from pubqueue.faces.http.host import CHALLENGES, MAX_BODY_BYTES, client, known
from pubqueue.faces.http.problems import STATUS, problem
from pubqueue.faces.xmpp.xml import refusals
from pubqueue.faces.xmpp.xml.payload import from_text
from pubqueue.faces.xmpp.xml.stanza import jid_of
from pubqueue.model.decision import Refusal
from pubqueue.model.entities import Jid, suggestion
from pubqueue.monitor import asking
from pubqueue.monitor.api import openapi
from pubqueue.monitor.api.openapi import (
    JSON,
    MAX_PAIRS,
    from_json,
    from_pairs,
    listed,
    method_of,
    written,
)
from pubqueue.monitor.api.publishing import MAX_BODY, ON_LOOP, Publishing, error_of, stanza_error
from pubqueue.monitor.page.logins import FACE
from pubqueue.operations.model import Readers, UnfitError, fit
from pubqueue.operations.table import OPERATIONS, hidden, lends

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from pubqueue.accounts.accounts import Accounts, Proven
    from pubqueue.engine.broker import Broker
    from pubqueue.faces.checks import Networks
    from pubqueue.model.decision import Refused
    from pubqueue.model.entities import Principal
    from pubqueue.operations.model import Answer, Given, Operation

    Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


# The addresses below `/api/`: the list of operations, each operation, and their description.

READERS: Final = Readers(jid_of, from_text)

HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
}

NAMES: Final = {
    400: "bad-request",
    403: "forbidden",
    404: "not-found",
    405: "method-not-allowed",
    406: "not-acceptable",
    408: "too-slow",
    409: "conflict",
    410: "moved",
    412: "precondition-failed",
    413: "too-large",
    415: "media-type",
    422: "key-reused",
    429: "too-many",
    431: "headers-too-large",
    500: "fault",
    501: "unsupported",
    503: "unavailable",
    507: "full",
}
"""The type of the problem of each status."""

FORBIDDEN: Final = (
    "Neither a role of the user nor its affiliation with the node includes this operation."
)

PUBLISH: Final = "/publish"

CLAIM: Final = "pubqueue.claim"
"""Where a request has what it says of itself, once its signature is proven."""

ACCEPTED: Final = frozenset({"*/*", "application/*", JSON})

MAX_FORM_FIELDS: Final = MAX_PAIRS + 1


class Api:
    """The operations of one process. `broker_of` returns the broker, or None while there is none."""

    def __init__(
        self, callers: Callers, broker_of: Callable[[], Broker | None], *, version: str
    ) -> None:
        self._callers = callers
        self._ask, self._publishing = asking.Asking(broker_of), Publishing(broker_of)
        operations = tuple(OPERATIONS.values())
        self._list = _Document(listed(operations))
        self._openapi = _Document(openapi.document(operations, version))

    def add_to(self, app: web.Application) -> None:
        """Answer under `/api/`."""
        api = web.Application(middlewares=[self._guarded])
        api.router.add_route("*", "/operations", self._known(self._listed))
        api.router.add_route("*", "/openapi.json", self._known(self._described))
        api.router.add_route("*", "/operations/{name}", self._known(self._operation))
        api.router.add_route("*", PUBLISH, self._known(self._publish))
        app.add_subapp("/api/", api)

    # --- for all requests -----------------------------------------------------------------------

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Return a problem document for each error."""
        response: web.StreamResponse
        try:
            response = await handler(request)
        except UnfitError as wrong:
            error = stanza_error(refusals.bad_request(text=str(wrong)))
            response = _problem(400, str(wrong), error=error)
        except asking.RefusedError as refused:
            reply = refused.reply
            response = _problem(STATUS[reply.refusal], _sentence(reply), error=error_of(reply))
        except asking.SilentError as silent:
            response = _problem(503, str(silent), {"Retry-After": "5"})
        except web.HTTPException as error:
            kept = {name: error.headers[name] for name in ("Allow",) if name in error.headers}
            response = _problem(error.status, error.reason, kept)
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        self._callers.sign(request, response)
        return response

    def _known(
        self, answer: Callable[[web.Request, Proven], Awaitable[web.StreamResponse]]
    ) -> Handler:
        """Return a handler for authenticated users; other requests are asked to log in, before they are processed."""

        async def handle(request: web.Request) -> web.StreamResponse:
            if request.method == "OPTIONS":
                return web.Response(status=204, headers={"Allow": ", ".join(_allowed(request))})
            proven = await self._callers.prove(request)
            if isinstance(proven, web.Response):
                return proven
            known(proven.account)
            if request.method not in (allowed := _allowed(request)):
                raise web.HTTPMethodNotAllowed(request.method, allowed)
            if not _accepts_json(request):
                raise web.HTTPNotAcceptable(reason=f"The answer is {JSON}.")
            return await answer(request, proven)

        return handle

    # --- answers --------------------------------------------------------------------------------

    async def _listed(self, request: web.Request, _: Proven) -> web.StreamResponse:
        return self._list.answer(request)

    async def _described(self, request: web.Request, _: Proven) -> web.StreamResponse:
        return self._openapi.answer(request)

    async def _operation(self, request: web.Request, proven: Proven) -> web.StreamResponse:
        name = request.match_info["name"]
        operation = OPERATIONS.get(name)
        if operation is None:
            near = suggestion(name, OPERATIONS)
            return _problem(404, f"There is no such operation{near or '.'}")
        given = await _given(request, operation)
        caller = self._callers.caller(proven, operation)
        meant = fit(operation, given, READERS)
        reply = await self._ask.perform(operation, caller.by, meant, remote=client())
        answer = operation.answer(reply, meant)
        return _json(written(operation, answer, caller.hidden), _next(operation, given, answer))

    async def _publish(self, request: web.Request, proven: Proven) -> web.StreamResponse:
        """Publish with the rights of the caller's own account: no role adds any."""
        node = from_pairs(_pairs(request.rel_url.raw_query_string)).get("node", ())
        if len(request.rel_url.query) != 1 or len(node) != 1 or not node[0]:
            raise UnfitError("node: it has to be given in the query, and nothing else")
        by = self._callers.itself(proven)
        if request.content_length is None or request.content_length > ON_LOOP:
            await self._publishing.check(by, node[0])
        if request.content_type != JSON:
            raise web.HTTPUnsupportedMediaType(reason=f"The body must be {JSON}.")
        body = await _body_of(request, MAX_BODY)
        return _json(await self._publishing.publish(by, node[0], body), {})


class _Document:
    """A document that does not change as long as the process runs."""

    def __init__(self, value: Mapping[str, Any]) -> None:
        self._body = _encoded(value)
        self._tag = sha256(self._body).hexdigest()[:32]

    def answer(self, request: web.Request) -> web.Response:
        """Return the document, unless the client has it."""
        headers = {"ETag": f'"{self._tag}"', "Cache-Control": "private, no-cache"}
        known = request.if_none_match or ()
        if any(one.value in {self._tag, "*"} for one in known):
            return web.Response(status=304, headers=headers)
        return web.Response(body=self._body, content_type=JSON, headers=headers)


async def _given(request: web.Request, operation: Operation) -> Given:
    """Return the parameters: from the query, or from the body if the operation changes something."""
    if not operation.changes:
        return from_pairs(_pairs(request.rel_url.raw_query_string))
    if request.rel_url.raw_query_string:
        raise UnfitError("the query: parameters of this operation are in the body")
    body = await _body_of(request)
    if request.content_type == asking.FORM:
        return from_pairs(_pairs(body.decode("utf-8", "surrogateescape")))
    if request.content_type == JSON or not body:
        return from_json(body, operation)
    raise web.HTTPUnsupportedMediaType(reason=f"The body must be {JSON} or {asking.FORM}.")


async def _body_of(request: web.Request, most: int = MAX_BODY_BYTES) -> bytes:
    """Return the body; of a signed request, only if it is the one that was signed."""
    if "Content-Encoding" in request.headers:
        raise web.HTTPUnsupportedMediaType(reason="The body must not be compressed.")
    body = await asking.body_of(request, most)
    claim = request.get(CLAIM)
    if isinstance(claim, Claim) and claim.body != digest_of(body):
        raise web.HTTPForbidden(reason="The body is not the one that was signed.")
    return body


def _pairs(text: str) -> list[tuple[str, str]]:
    """Return the fields of a form or a query; invalid UTF-8 is refused later, as a character that is not allowed in names."""
    try:
        return parse_qsl(
            text,
            keep_blank_values=True,
            errors="surrogateescape",
            max_num_fields=MAX_FORM_FIELDS,
        )
    except ValueError:
        raise UnfitError(f"the parameters: up to {MAX_PAIRS} values") from None


def _next(operation: Operation, given: Given, answer: Answer) -> dict[str, str]:
    """Return the link to the next page."""
    if not answer.more or operation.changes:
        return {}
    query = urlencode({**given, "after": (answer.through,)}, doseq=True)
    return {"Link": f'<{operation.name}?{query}>; rel="next"'}


def _allowed(request: web.Request) -> tuple[str, ...]:
    """Return the methods of the address: those of the operation that it names; for other addresses, the methods that only read."""
    if request.path.endswith(f"/api{PUBLISH}"):
        return "POST", "OPTIONS"
    operation = OPERATIONS.get(request.match_info.get("name", ""))
    if operation is None or method_of(operation) == "GET":
        return "GET", "HEAD", "OPTIONS"
    return "POST", "OPTIONS"


def _accepts_json(request: web.Request) -> bool:
    """Return whether the client accepts JSON; a request without Accept accepts everything (RFC 9110 12.5.1)."""
    ranges = ",".join(request.headers.getall("Accept", [])).split(",")
    wanted = [one for one in map(_media_range, ranges) if one[0]]
    return not wanted or any(name in ACCEPTED and quality > 0 for name, quality in wanted)


def _media_range(text: str) -> tuple[str, float]:
    """Return a media range, and its weight."""
    name, *words = (word.strip().lower() for word in text.split(";"))
    quality = next((word[2:] for word in words if word.startswith("q=")), "1")
    try:
        return name, float(quality)
    except ValueError:
        return name, 1.0


def _sentence(reply: Refused) -> str:
    """Return why the core refused."""
    if reply.refusal is Refusal.FORBIDDEN and not reply.reason:
        return FORBIDDEN
    return str(asking.RefusedError(reply))


def _problem(
    status: int, detail: str, headers: Mapping[str, str] | None = None, **more: object
) -> web.Response:
    """Return a problem; a status without a name of its own is a bad request."""
    if status not in NAMES:
        status = HTTPStatus.BAD_REQUEST
    return problem(status, NAMES[status], detail, headers=headers, **more)


def _json(value: Mapping[str, Any], headers: Mapping[str, str]) -> web.Response:
    return web.Response(body=_encoded(value), content_type=JSON, headers=headers)


def _encoded(value: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode(value) + b"\n"


# Authenticates the caller of an operation, in each request, and determines its rights.

log = structlog.get_logger(__name__)

READING: Final = frozenset({"GET", "HEAD"})
"""Methods that change nothing: a page of another site may send them, and cannot read the response."""

UNGUARDED: Final = "Use HTTPS: this connection would send credentials in plain text. Change those that it has sent."


class Caller(Struct, frozen=True):
    """The principal of a request for an operation, and the columns that are hidden from it."""

    by: Principal
    hidden: frozenset[str] = frozenset()


class Callers:
    """Authenticates requests. `service` is the principal whose rights a role gives."""

    def __init__(self, accounts: Accounts, service: Principal, proxies: Networks) -> None:
        self._accounts, self._service, self._proxies = accounts, service, tuple(proxies)

    async def prove(self, request: web.Request) -> Proven | web.Response:
        """Return the user; or the response, if the request has no user, or if another site may have had the browser send it."""
        if request.method not in READING and not asking.is_from_here(request):
            return problem(403, "forbidden", "This request was sent from a page of another site.")
        fields = request.headers.getall("Authorization", [])
        given = credentials_in(fields)
        if given is None and (claim := claim_in(fields)) is not None and asking.is_here(request):
            proven = self._by_key(request, claim)
        elif given is None:
            return _unknown("Log in with Basic or Bearer.")
        elif not asking.is_guarded(request, self._proxies):
            return problem(403, "forbidden", UNGUARDED)
        else:
            proven = await self._accounts.prove(given, face=FACE, peer=client())
        if not isinstance(proven, Denied):
            return proven
        if not proven.wait:
            return _unknown("Wrong name, password, token or key.")
        why, headers = asking.after_too_many(proven.wait)
        return problem(429, "too-many", why, headers=headers)

    def _by_key(self, request: web.Request, claim: Claim) -> Proven | Denied:
        """Authenticate a program on this host that has signed with its key; the answer is then signed, too."""
        target, peer = request.raw_path, client()
        proven = self._accounts.prove_by_key(claim, request.method, target, face=FACE, peer=peer)
        if not isinstance(proven, Denied):
            request[CLAIM] = claim
        return proven

    def sign(self, request: web.Request, response: web.StreamResponse) -> None:
        """Sign the answer to a request that was signed with the key of this host."""
        claim, key = request.get(CLAIM), self._accounts.local_key
        if isinstance(claim, Claim) and key is not None and isinstance(response, web.Response):
            body = response.body if isinstance(response.body, bytes) else b""
            response.headers[PROOF] = key.proof(claim, response.status, body)

    def sees_all(self, proven: Proven) -> bool:
        """Return whether the user has a role here, which shows it all nodes, or operates the service on its host."""
        return proven.mark == BY_KEY or bool(self._accounts.roles(proven))

    def caller(self, proven: Proven, operation: Operation) -> Caller:
        """Return the caller, with the rights of the service if a role of the user includes the operation, else with its own rights."""
        itself, roles = self.itself(proven), self._accounts.roles(proven)
        if lends(roles, operation):
            return Caller(replace(self._service, jid=itself.jid), hidden(roles))
        return Caller(itself)

    def itself(self, proven: Proven) -> Principal:
        """Return the caller with the rights of its own account, which is the service's for an operator on its host."""
        if proven.mark == BY_KEY:
            return replace(self._service, jid=Jid(f"{proven.account}/local-{proven.name}"))
        return self._accounts.principals.of(Jid(f"{proven.account}/api"))


def _unknown(why: str) -> web.Response:
    answer = problem(401, "unauthorized", why)
    for challenge in CHALLENGES:
        answer.headers.add("WWW-Authenticate", challenge)
    return answer
