"""The part of the HTTP host that lets requests of v1beta1a in: who it is, which method it is, and an answer in every case.

The host listens before the broker is at work, so a face may be missing; then every request is answered 503.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

import msgspec
import structlog
from aiohttp import web
from grpc import StatusCode

from pubqueue.accounts.credentials import Bearer, Certificate
from pubqueue.engine.connections import HttpRequests
from pubqueue.engine.observe import Traffic
from pubqueue.faces.faults import fault
from pubqueue.faces.grpc.entry.answering import TOO_LARGE
from pubqueue.faces.grpc.entry.turns import LARGE, Turns
from pubqueue.faces.grpc.entry.who import WORD
from pubqueue.faces.grpc.face import GrpcFace
from pubqueue.faces.grpc.json import rows
from pubqueue.faces.grpc.json.requests import fields_of, message_of
from pubqueue.faces.grpc.json.statuses import HTTP, error
from pubqueue.faces.grpc.wire.statuses import (
    NOT_AUTHORIZED,
    STOPPING,
    UNKNOWN_CALLER,
    CallError,
    invalid,
)
from pubqueue.faces.http import bodies
from pubqueue.faces.http.credentials import CHALLENGES, credentials_of
from pubqueue.faces.http.host import allow, connection
from pubqueue.faces.http.peers import address_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from google.protobuf.message import Message

    from pubqueue.accounts.credentials import Credentials
    from pubqueue.faces.grpc.calls import Call
    from pubqueue.faces.grpc.json.requests import Fields
    from pubqueue.faces.grpc.json.rows import Row

log = structlog.get_logger(__name__)

VERSION: Final = "v1beta1a"
"""What paths begin with, and the profile of requests in metrics."""

UNMATCHED: Final = "none"
"""The method of requests that match none, in metrics."""

MAX_BODY: Final = 14 << 20
"""Bytes of a body: those of a publish of 10,000,000 bytes in base64, and some more."""

MAX_FORM: Final = 64 << 10
"""Bytes of parameters in a body."""

MAX_WAIT: Final = 55.0
"""Seconds that a pull waits at most: Google's client gives up after 60."""

ON_LOOP: Final = 16 << 10
"""Bytes of a body that is converted at once; others are served while larger ones are converted."""

BODY_TIMEOUT: Final = 30.0
"""Seconds to receive a body."""

MAX_TIME: Final = 120.0
"""Seconds for everything, the turn of a large body included."""

NOT_SUPPORTED: Final = ("fields", "callback", "access_token", "oauth_token")
"""Parameters of all methods that would change the answer, or have secrets in a URL. Other parameters are ignored."""

BODIES: Final[Mapping[int, tuple[StatusCode, str]]] = {
    400: (StatusCode.INVALID_ARGUMENT, "The body cannot be read."),
    408: (StatusCode.DEADLINE_EXCEEDED, "The body took too long."),
    413: (
        StatusCode.INVALID_ARGUMENT,
        f"A body has at most {MAX_BODY} bytes, parameters {MAX_FORM}.",
    ),
    417: (StatusCode.INVALID_ARGUMENT, "The expectation is not known."),
}
"""The code and the message for a refused body, by the status."""

RECEIVED: Final = 32 << 20
"""Bytes of large bodies that are received at a time, so that a slow client does not hold up all others."""

_encode: Final = msgspec.json.Encoder().encode


class JsonDoor:
    """Lets requests in, to the face that serves at the time."""

    def __init__(self) -> None:
        self._face: GrpcFace | None = None
        self._receiving, self._turns = Turns(RECEIVED), Turns()
        self.requests = HttpRequests()
        self.traffic = Traffic(requests=self.requests)

    def lead_to(self, faces: Iterable[object]) -> None:
        """Let requests in to the face of gRPC among these, once it serves."""
        self._face = next((face for face in faces if isinstance(face, GrpcFace)), None)

    def add_to(self, app: web.Application) -> None:
        """Serve the paths of the version."""
        for pattern in (f"/{VERSION}", rf"/{VERSION}/{{tail:[\s\S]*}}"):
            app.router.add_route("*", pattern, self._handle, expect_handler=self._expect)

    async def _expect(self, request: web.Request) -> web.StreamResponse | None:
        """Ask for the body of a request that waits for that, unless it is too large."""
        if (request.content_length or 0) > MAX_BODY:
            return _of_body(413)
        return None if await bodies.meets_expectation(request) else _of_body(417)

    async def _handle(self, request: web.Request) -> web.Response:
        raw = request.rel_url.raw_path
        found = rows.find(_method(request), raw.removeprefix(f"/{VERSION}"))
        word = UNMATCHED if found is None else found[0].word
        try:
            response = await self._answer(request, found)
        except CallError as problem:
            response = _failed(problem.code, problem.message)
        except bodies.BodyError as problem:
            response = _of_body(problem.status)
        except (ConnectionError, web.HTTPException):
            raise
        except Exception as problem:  # the boundary between requests: a fault in one ends that one
            log.error("call.failed", face=WORD, rpc=word, **fault(problem))  # noqa: TRY400  # no payload in a trace
            response = _failed(StatusCode.INTERNAL, "The service has met a fault of its own.")
        self.requests.count(VERSION, word, response.status)
        return response

    async def _answer(self, request: web.Request, found: tuple[Row, Fields] | None) -> web.Response:
        face, at = self._face, connection()
        if face is None:
            raise STOPPING
        call = await face.json_call(_credentials(request), at.peer, MAX_WAIT)
        if found is None:
            raise CallError(StatusCode.NOT_FOUND, "There is no such method.")
        row, named = found
        allow(None)
        async with face.until_stop.within(MAX_TIME):
            if request.method == "POST" == _method(request):
                return await self._of_body(request, row, call)
            fields = await _of_query(request) | named
            return _response(200, await row.handle(call, message_of(fields, row.kind), {}))

    async def _of_body(self, request: web.Request, row: Row, call: Call) -> web.Response:
        """Return the answer to a request with a body: a large one is received in its turn, and then converted and published in its turn."""
        _parameters(request.query.items())
        size = MAX_BODY if request.content_length is None else request.content_length
        async with self._receiving.of(size, call.account):
            body = await bodies.read(request, MAX_BODY, BODY_TIMEOUT)
            async with self._turns.of(len(body), call.account):
                if row.waits and len(body) >= LARGE:
                    raise invalid(TOO_LARGE)
                if len(body) < ON_LOOP:
                    message, more = _given(body, row.kind)
                else:
                    message, more = await asyncio.to_thread(_given, body, row.kind)
                del body
                if not row.waits:
                    return _response(200, await row.handle(call, message, more))
        del more  # it may be large, and the message is waited for
        return _response(200, await row.handle(call, message, {}))


async def _of_query(request: web.Request) -> Fields:
    """Return the parameters, which are in the body if the client posts a GET."""
    if request.method != "POST":
        return _parameters(request.query.items())
    form = await bodies.read(request, MAX_FORM, BODY_TIMEOUT)
    return _parameters(parse_qsl(form.decode("latin-1")))


def _given(body: bytes, kind: type[Message]) -> tuple[Any, Fields]:
    """Return the message in a body, and the fields that the message does not have."""
    fields = fields_of(body)
    known = {name for one in kind.DESCRIPTOR.fields for name in (one.name, one.json_name)}
    return message_of(fields, kind), {one: fields[one] for one in fields.keys() - known}


def _method(request: web.Request) -> str:
    """Return the method: Google's client posts a GET whose URL would be long, with the parameters in the body."""
    override = request.headers.get("X-HTTP-Method-Override")
    return "GET" if request.method == "POST" and override == "GET" else request.method


def _credentials(request: web.Request) -> Credentials | None:
    """Return what a request proves its account with; None: it has nothing, and comes from a program on this machine.

    Raises:
        CallError: a page in a browser has caused it; without credentials that would be enough for the account of `anonymous`.

    """
    if "Origin" in request.headers:
        raise CallError(StatusCode.PERMISSION_DENIED, NOT_AUTHORIZED)
    if values := request.headers.getall("Authorization", ()):
        return credentials_of(values) or Bearer("")
    if subject := (request.get_extra_info("peercert") or {}).get("subject"):
        return Certificate(subject)
    if not _is_loopback(request.host):  # a name that leads here by DNS, and a page of which does
        raise UNKNOWN_CALLER
    return None


def _is_loopback(host: str) -> bool:
    name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
    address = address_of(name.strip("[]"))
    return name == "localhost" or (address is not None and address.is_loopback)


def _parameters(query: Iterable[tuple[str, str]]) -> Fields:
    """Return the parameters of the method itself.

    Raises:
        CallError: one is of all methods, and not supported.

    """
    given: Fields = dict(query)
    if given.get("alt", "json") != "json":
        raise invalid("alt: the answer is JSON.")
    for name in NOT_SUPPORTED:
        if name in given:
            raise invalid(f"{name} is not supported.")
    return given


def _failed(code: StatusCode, message: str, status: int | None = None) -> web.Response:
    response = _response(status or HTTP[code], error(code, message, status))
    if code is StatusCode.UNAUTHENTICATED:
        for challenge in CHALLENGES:
            response.headers.add("WWW-Authenticate", challenge)
    return response


def _of_body(status: int) -> web.Response:
    code, sentence = BODIES[status]
    response = _failed(code, sentence, status)
    response.force_close()
    return response


def _response(status: int, fields: Fields) -> web.Response:
    return web.Response(
        status=status, body=_encode(fields), content_type="application/json", charset="utf-8"
    )
