"""The methods of v1beta1a over HTTP and JSON, each made into an rpc."""

from __future__ import annotations

import asyncio
import json
import re
import string
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, NoReturn
from urllib.parse import parse_qsl, unquote

import msgspec
import structlog
from aiohttp import web
from google.protobuf import json_format
from grpc import StatusCode
from msgspec import Struct

from pubqueue.accounts.credentials import Certificate, credentials_in
from pubqueue.engine.connections import HttpRequests
from pubqueue.engine.observe import Traffic
from pubqueue.faces.checks import address_of
from pubqueue.faces.grpc import subscriptions, wire
from pubqueue.faces.grpc import tech as binding
from pubqueue.faces.grpc.callers import LARGE, Turns
from pubqueue.faces.grpc.face import GrpcFace
from pubqueue.faces.grpc.server import TOO_LARGE
from pubqueue.faces.grpc.settings import WORD
from pubqueue.faces.grpc.statuses import (
    NOT_AUTHORIZED,
    STOPPING,
    UNKNOWN_CALLER,
    CallError,
    invalid,
)
from pubqueue.faces.grpc.subscriptions import MAX_ACK_IDS
from pubqueue.faces.grpc.topics import MAX_MESSAGES
from pubqueue.faces.grpc.wire import MAX_ATTRIBUTES, tech
from pubqueue.faces.http import host
from pubqueue.faces.http.host import CHALLENGES, allow, client, is_same_origin
from pubqueue.logs import fault

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from google.protobuf.message import Message

    from pubqueue.accounts.credentials import Credentials
    from pubqueue.faces.grpc.calls import Call, Unary
    from pubqueue.model.entities import Item
    from pubqueue_xeps.wire.payloads.wrapper import Body


# The part of the HTTP host that lets requests of v1beta1a in: who it is, which method it is, and an answer in every case.
#
# The host listens before the broker is at work, so a face may be missing; then every request is answered 503.

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
"""Parameters of all methods that would change the answer, or have secrets in a URL."""

IDLE: Final = frozenset(
    {"alt", "key", "prettyPrint", "quotaUser", "uploadType", "upload_protocol", "$.xgafv"}
)
"""Parameters of all methods that cannot matter here. What is neither of these nor of the method is refused."""

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
        return None if await host.meets_expectation(request) else _of_body(417)

    async def _handle(self, request: web.Request) -> web.Response:
        raw = request.rel_url.raw_path
        found = find(_method(request), raw.removeprefix(f"/{VERSION}"))
        word = UNMATCHED if found is None else found[0].word
        try:
            response = await self._answer(request, found)
        except CallError as problem:
            response = _failed(problem.code, problem.message)
        except host.BodyError as problem:
            response = _of_body(problem.status)
        except (ConnectionError, web.HTTPException):
            raise
        except Exception as problem:  # the boundary between requests: a fault in one ends that one
            log.error("call.failed", face=WORD, rpc=word, **fault(problem))  # noqa: TRY400  # no payload in a trace
            response = _failed(StatusCode.INTERNAL, "The service has met a fault of its own.")
        self.requests.count(VERSION, word, response.status)
        return response

    async def _answer(self, request: web.Request, found: tuple[Row, Fields] | None) -> web.Response:
        face = self._face
        if face is None:
            raise STOPPING
        call = await face.json_call(_credentials(request), client(), MAX_WAIT)
        host.known(call.account)
        if found is None:
            raise CallError(StatusCode.NOT_FOUND, "There is no such method.")
        row, named = found
        allow(None)
        try:
            return await self._called(request, row, named, call)
        except CallError as problem:
            call.charge(problem)
            raise

    async def _called(
        self, request: web.Request, row: Row, named: Fields, call: Call
    ) -> web.Response:
        face = self._face
        assert face is not None, "the call is its"
        async with face.until_stop.within(MAX_TIME):
            if request.method == "POST" == _method(request):
                return await self._of_body(request, row, call)
            fields = await _of_query(request)
            if twice := fields.keys() & named:
                raise invalid(f"{min(twice)} is in the path.")
            fields |= named
            return _response(200, await row.handle(call, message_of(fields, row.kind), {}))

    async def _of_body(self, request: web.Request, row: Row, call: Call) -> web.Response:
        """Return the answer to a request with a body: a large one is received in its turn, and then converted and published in its turn."""
        if request.query_string:
            message_of(_parameters(request.query.items()), tech.Empty)
        size = MAX_BODY if request.content_length is None else request.content_length
        if size > MAX_BODY:  # before it waits for room, and all others behind it
            raise host.BodyError(413)
        async with self._receiving.of(size, call.account):
            body = await host.read(request, MAX_BODY, BODY_TIMEOUT)
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
    form = await host.read(request, MAX_FORM, BODY_TIMEOUT)
    return _parameters(parse_qsl(form.decode("latin-1")))


def _given(body: bytes, kind: type[Message]) -> tuple[Any, Fields]:
    """Return the message in a body, and the fields that its method takes beside it."""
    fields = fields_of(body)
    more = {one: fields.pop(one) for one in BESIDE.get(kind, ()) if one in fields}
    return message_of(fields, kind), more


def _method(request: web.Request) -> str:
    """Return the method: Google's client posts a GET whose URL would be long, with the parameters in the body."""
    override = request.headers.get("X-HTTP-Method-Override")
    return "GET" if request.method == "POST" and override == "GET" else request.method


def _credentials(request: web.Request) -> Credentials | None:
    """Return what a request proves its account with; None: it has nothing, and comes from a program on this machine.

    Raises:
        CallError: its credentials cannot be read; or a page of another site has caused it, and without credentials that would be
            enough for the account of `anonymous`.

    """
    origin = request.headers.get("Origin")
    if origin is not None and not is_same_origin(origin, request.host):
        raise CallError(StatusCode.PERMISSION_DENIED, NOT_AUTHORIZED)
    if values := request.headers.getall("Authorization", ()):
        if (found := credentials_in(values)) is None:
            raise UNKNOWN_CALLER
        return found
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
    pairs = list(query)
    given: Fields = dict(pairs)
    if len(given) < len(pairs):
        raise invalid("A parameter occurs twice.")
    if given.get("alt", "json") != "json":
        raise invalid("alt: the answer is JSON.")
    for name in NOT_SUPPORTED:
        if name in given:
            raise invalid(f"{name} is not supported.")
    return {name: value for name, value in given.items() if name not in IDLE}


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


# From the messages of `tech.pubsub` to JSON, with the forms and fields that this binding has. Pure.


def plain(message: Message) -> Fields:
    """Return a message as it is."""
    return json_format.MessageToDict(message)


def subscription(message: tech.Subscription) -> Fields:
    """Return a subscription; its name begins with a slash here."""
    return _named(plain(message))


def page(message: Message) -> Fields:
    """Return a page of a list; the last one has no token."""
    found = plain(message)
    if not found.get("nextPageToken"):
        found.pop("nextPageToken", None)
    for one in found.get("subscription", ()):
        _named(one)
    return found


def pulled(name: str, item: Item, payload: bytes, body: Body | None = None) -> Fields:
    """Return an item that is locked to the caller; its message has its time, in milliseconds. `body`, if its payload was unwrapped already."""
    found = plain(binding.pulled(name, item, payload, body))
    event = found["pubsubEvent"]
    event["subscription"] = _shown(event["subscription"])
    if "message" in event:
        event["message"]["publishTime"] = str(item.published)
    return found


def _named(found: Fields) -> Fields:
    found["name"] = _shown(found["name"])
    return found


def _shown(name: Any) -> str:  # noqa: ANN401  # of JSON
    return f"/subscriptions/{name}"


# From the body of a request to the message of an rpc, as proto JSON has it. Pure.
#
# Errors name the field, and nothing of what is in it.

Fields = dict[str, Any]
"""An object of JSON."""

MAX_VALUES: Final[Mapping[str, int]] = {
    "messages": MAX_MESSAGES,
    "label": MAX_ATTRIBUTES,
    "ack_id": MAX_ACK_IDS,
}
"""How many values a list has at most: what has more is refused before it is converted."""

MAX_ELEMENTS: Final = 320_000
"""Commas and opening brackets in a body, those in texts included: more than in the largest batch with all its labels. Others wait while a
body is parsed, and each of them may stand for an object in memory.
"""

IDLE_FIELDS: Final = frozenset({"publishTime", "publish_time"})
"""Fields that Google's document has for messages and the messages do not; the service alone sets them."""

MAX_DEPTH: Final = 100
"""Levels of brackets, as protobuf has it."""

MAX_SHOWN: Final = 100
"""Characters of an unknown name that are repeated."""

MAX_DIGITS: Final = 100
"""Digits of a number: what long ones take is quadratic."""

_BASE64: Final = f"{string.ascii_letters}{string.digits}+/-_".encode()
_MAX_PADDING: Final = 2
_FIELD: Final = re.compile(r"Failed to parse (\w+) field")
_NOT_JSON: Final = "The body is not JSON"


def fields_of(body: bytes) -> Fields:
    """Return the object that a body has; an empty body is an empty object.

    Raises:
        CallError: it is no JSON in UTF-8, or no object, or has too much in it.

    """
    if not body.strip():
        return {}
    if sum(map(body.count, (b",", b"[", b"{"))) > MAX_ELEMENTS:
        raise invalid(f"The body has more than {MAX_ELEMENTS} commas and brackets.")
    try:
        found = json.loads(
            body.decode(), object_pairs_hook=_unique, parse_constant=_refuse, parse_int=_integer
        )
    except (ValueError, RecursionError):
        raise invalid(
            f"{_NOT_JSON} in UTF-8, or has a name twice, a long number or deep brackets."
        ) from None
    if not isinstance(found, dict):
        raise invalid(f"{_NOT_JSON} of an object.")
    level: list[Any] = [found]
    for _ in range(
        MAX_DEPTH
    ):  # not by recursion: versions of Python end that at depths of their own
        values = (each.values() if isinstance(each, dict) else each for each in level)
        level = [one for inner in values for one in inner if isinstance(one, dict | list)]
        if not level:
            return found
    raise invalid(f"The body has brackets deeper than {MAX_DEPTH}.")


def _unique(pairs: Sequence[tuple[str, Any]]) -> Fields:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name twice")
    for name in found:
        name.encode()  # raises ValueError for half of a surrogate pair, of which protobuf makes an error of its own
    return found


def _refuse(_constant: str) -> NoReturn:
    raise ValueError("NaN and Infinity are no JSON")


def _integer(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise ValueError("a number with too many digits")
    return int(text)


def message_of(given: Fields, kind: type[Message]) -> Any:  # noqa: ANN401  # of any rpc
    """Return the message of this kind.

    Raises:
        CallError: it has no such field, or a field does not have a value of its type, or a list is too long, or a label has no key.

    """
    _check(given, kind.DESCRIPTOR, ())
    try:
        message: Any = json_format.ParseDict(given, kind(), ignore_unknown_fields=True)
    except json_format.ParseError as problem:
        raise _wrong(_FIELD.findall(str(problem))) from None
    if missing := message.FindInitializationErrors():
        raise invalid(f"A value is missing at '{missing[0]}'.")
    return message


@cache
def _by_name(kind: Any) -> Mapping[str, Any]:  # noqa: ANN401  # a descriptor
    """Return the fields of a kind of message, by both of their names."""
    return {name: one for one in kind.fields for name in (one.name, one.json_name)}


def _check(given: Fields, kind: Any, path: Sequence[str]) -> None:  # noqa: ANN401  # a descriptor
    """Refuse unknown names, and what the conversion would not: lists that are too long, text where an object belongs, and bytes that are no base64."""
    known = _by_name(kind)
    for name, value in given.items():
        if (field := known.get(name)) is not None:
            here = (*path, field.json_name)
            if name != field.json_name and field.json_name in given:
                raise invalid(f"'{'.'.join(here)}' occurs twice.")
            if value is not None:
                _check_value(value, field, here)
        elif name not in IDLE_FIELDS:
            raise invalid(f"Unknown name '{'.'.join((*path, name[:MAX_SHOWN]))}'.")


def _check_value(value: object, field: Any, here: Sequence[str]) -> None:  # noqa: ANN401  # a descriptor
    values = value if isinstance(value, list) and field.is_repeated else [value]
    most = MAX_VALUES.get(field.name)
    if most is not None and len(values) > most:
        raise invalid(f"{'.'.join(here)} has more than {most} values.")
    if field.message_type is not None:
        for one in values:
            if not isinstance(one, dict):
                raise _wrong(here)
            _check(one, field.message_type, here)
    elif field.type == field.TYPE_BYTES and isinstance(value, str) and not _is_base64(value):
        raise _wrong(here)


def _is_base64(text: str) -> bool:
    """Return whether the text is base64 of either alphabet, of which there may be ten megabytes."""
    bare = text.rstrip("=")
    is_padded = len(text) - len(bare) <= _MAX_PADDING
    return is_padded and bare.isascii() and not bare.encode().translate(None, _BASE64)


def _wrong(path: Sequence[str]) -> CallError:
    where = f" at '{'.'.join(path)}'" if path else ""
    return invalid(f"Invalid value{where}.")


# The methods of v1beta1a: one table of method and path, as Google's discovery document has them, over the rpcs of `tech.pubsub`.

if TYPE_CHECKING:
    Handler = Callable[[Call, Any, Fields], Awaitable[Fields]]
    """Answers a request; the fields are those of the body that its kind does not have."""


class Row(Struct, frozen=True):
    """A method: its name in Google's client, the kind of its request, and the function that answers it.

    `field` is the field of the name in the path, if there is one; `waits`: it may wait for a message.
    """

    word: str
    kind: type[Message]
    handle: Handler
    field: str = ""
    waits: bool = False


def _rpc(handle: Unary, shown: Callable[..., Fields] = plain) -> Handler:
    """Return the handler of an rpc as it is."""

    async def answer(call: Call, request: Any, _more: Fields) -> Fields:  # noqa: ANN401  # of any rpc
        return shown(await handle(call, request))

    return answer


async def _pull(call: Call, request: tech.PullRequest, _more: Fields) -> Fields:
    item, payload = await binding.take(call, request)
    body = await subscriptions.body_of(item, payload)
    return pulled(binding.subscription_name(request.subscription), item, payload, body)


async def _pull_batch(call: Call, request: tech.PullBatchRequest, _more: Fields) -> Fields:
    items = await binding.take_batch(call, request)
    name = binding.subscription_name(request.subscription)

    found = await subscriptions.converted(items, partial(pulled, name))
    return {"pullResponses": found} if found else {}


BESIDE: Final[Mapping[type[Message], tuple[str, ...]]] = {
    tech.ModifyAckDeadlineRequest: ("ackIds", "ack_ids"),
}
"""Fields that a method takes though its message has no such field."""


async def _modify_ack_deadline(
    call: Call, request: tech.ModifyAckDeadlineRequest, more: Fields
) -> Fields:
    """Set the deadlines of one message or of several; `ackIds` is not in the seed."""
    several = more.get("ackIds", more.get("ack_ids"))
    ids = list(message_of({"ackId": several}, tech.AcknowledgeRequest).ack_id)
    if ids and request.ack_id:
        raise invalid("ackId and ackIds: only one of them can be set.")
    change = subscriptions.Change(request.ack_deadline_seconds)
    name = binding.subscription_name(request.subscription)
    await subscriptions.settle(call, name, ids or [request.ack_id], change)
    return {}


_TOPIC: Final = "topic"
_QUEUE: Final = "subscription"

# fmt: off
ROWS: Final[Mapping[tuple[str, str], Row]] = {
    ("POST", "topics"):                              Row("topics.create", tech.Topic, _rpc(binding.create_topic)),
    ("POST", "topics/publish"):                      Row("topics.publish", tech.PublishRequest, _rpc(binding.publish)),
    ("POST", "topics/publishBatch"):                 Row("topics.publishBatch", tech.PublishBatchRequest, _rpc(binding.publish_batch)),
    ("GET", "topics"):                               Row("topics.list", tech.ListTopicsRequest, _rpc(binding.list_topics, page)),
    ("GET", "topics/{name}"):                        Row("topics.get", tech.GetTopicRequest, _rpc(binding.get_topic), _TOPIC),
    ("DELETE", "topics/{name}"):                     Row("topics.delete", tech.DeleteTopicRequest, _rpc(binding.delete_topic), _TOPIC),
    ("POST", "subscriptions"):                       Row("subscriptions.create", tech.Subscription, _rpc(binding.create_subscription, subscription)),
    ("POST", "subscriptions/pull"):                  Row("subscriptions.pull", tech.PullRequest, _pull, waits=True),
    ("POST", "subscriptions/pullBatch"):             Row("subscriptions.pullBatch", tech.PullBatchRequest, _pull_batch, waits=True),
    ("POST", "subscriptions/acknowledge"):           Row("subscriptions.acknowledge", tech.AcknowledgeRequest, _rpc(binding.acknowledge)),
    ("POST", "subscriptions/modifyAckDeadline"):     Row("subscriptions.modifyAckDeadline", tech.ModifyAckDeadlineRequest, _modify_ack_deadline),
    ("POST", "subscriptions/modifyPushConfig"):      Row("subscriptions.modifyPushConfig", tech.ModifyPushConfigRequest, _rpc(binding.modify_push_config)),
    ("GET", "subscriptions"):                        Row("subscriptions.list", tech.ListSubscriptionsRequest, _rpc(binding.list_subscriptions, page)),
    ("GET", "subscriptions/{name}"):                 Row("subscriptions.get", tech.GetSubscriptionRequest, _rpc(binding.get_subscription, subscription), _QUEUE),
    ("DELETE", "subscriptions/{name}"):              Row("subscriptions.delete", tech.DeleteSubscriptionRequest, _rpc(binding.delete_subscription), _QUEUE),
}
# fmt: on
"""The methods, by method of HTTP and path below the version."""


def find(method: str, raw_path: str) -> tuple[Row, Fields] | None:
    """Return the row of a request, and the field that its path has; `raw_path` is as it was sent, below the version."""
    path = raw_path.strip("/")
    if (row := ROWS.get((method, path))) is not None:
        return row, {}
    collection, _, rest = path.partition("/")
    row = ROWS.get((method, f"{collection}/{{name}}"))
    if row is None or not rest:
        return None
    return row, {row.field: _name_in_path(rest.lstrip("/"), wire.ResourceKind(collection))}


def _name_in_path(written: str, kind: wire.ResourceKind) -> str:
    """Return the name in a path: as it is written if that is a name, since names may have percent signs; else decoded.

    Google's client writes names as they are. One slash more or less is the same.
    """
    try:
        wire.node_of(wire.of_tech(written, kind), kind)
    except wire.BadNameError:
        return unquote(written).lstrip("/")
    return written


# What a request ends with when it fails: the code of HTTP, and the error as Google's clients of JSON read it. Pure.

# fmt: off
HTTP: Final[Mapping[StatusCode, int]] = {
    StatusCode.OK:                  200,
    StatusCode.CANCELLED:           499,
    StatusCode.UNKNOWN:             500,
    StatusCode.INVALID_ARGUMENT:    400,
    StatusCode.DEADLINE_EXCEEDED:   504,
    StatusCode.NOT_FOUND:           404,
    StatusCode.ALREADY_EXISTS:      409,
    StatusCode.PERMISSION_DENIED:   403,
    StatusCode.UNAUTHENTICATED:     401,
    StatusCode.RESOURCE_EXHAUSTED:  429,
    StatusCode.FAILED_PRECONDITION: 400,
    StatusCode.ABORTED:             409,
    StatusCode.OUT_OF_RANGE:        400,
    StatusCode.UNIMPLEMENTED:       501,
    StatusCode.INTERNAL:            500,
    StatusCode.UNAVAILABLE:         503,
    StatusCode.DATA_LOSS:           500,
}
# fmt: on
"""The code of HTTP for each code of gRPC (google/rpc/code.proto)."""


def error(code: StatusCode, message: str, status: int | None = None) -> dict[str, object]:
    """Return the body of an answer that says why a request has failed; `status` if HTTP has a closer one."""
    number = HTTP[code] if status is None else status
    return {"error": {"code": number, "message": message, "status": code.name}}
