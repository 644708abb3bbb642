"""Every refusal as a status of HTTP, a name and a problem document (RFC 9457), the same for all parts."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import msgspec
from aiohttp import web

from pubqueue.model.decision import Refusal, Refused

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


# Errors as problem documents (RFC 9457), the same for all parts.

MEDIA_TYPE: Final = "application/problem+json"

SPACE: Final = "urn:x-pubqueue:problem:"
"""The beginning of every `type`."""


def document(status: int, name: str, detail: str = "", **more: object) -> dict[str, object]:
    """Return a problem: its type, the title of the status, and a sentence for the caller."""
    words: dict[str, object] = {
        "type": f"{SPACE}{name}",
        "title": HTTPStatus(status).phrase,
        "status": status,
    }
    return words | ({"detail": detail} if detail else {}) | more


def problem(
    status: int,
    name: str,
    detail: str = "",
    *,
    headers: Mapping[str, str] | None = None,
    **more: object,
) -> web.Response:
    """Return an answer with a problem. `detail` is a sentence for the caller, without payloads or internal addresses."""
    return web.Response(
        body=msgspec.json.encode(document(status, name, detail, **more)) + b"\n",
        status=status,
        content_type=MEDIA_TYPE,
        headers=headers,
    )


# The HTTP status of every refusal, for whatever answers over HTTP: the page, and faces that speak it.

# fmt: off
STATUS: Final[dict[Refusal, int]] = {
    Refusal.NODE_NOT_FOUND:           404,
    Refusal.ITEM_NOT_FOUND:           404,
    Refusal.FORBIDDEN:                403,
    Refusal.NOT_YOURS:                403,
    Refusal.LOCKED_BY_ANOTHER:        412,
    Refusal.LOCK_LOST:                412,
    Refusal.ITEM_EXISTS:              409,
    Refusal.PUBLISH_PAUSED:           503,
    Refusal.NOT_A_QUEUE:              501,
    Refusal.NODE_EXISTS:              409,
    Refusal.NODE_FULL:                507,
    Refusal.TOO_MANY_ITEMS:           413,
    Refusal.PAYLOAD_TOO_BIG:          413,
    Refusal.HEADERS_TOO_BIG:          431,
    Refusal.ITEM_LOCKED:              409,
    Refusal.CLOSED_NODE:              403,
    Refusal.CONFIGURATION_REQUIRED:   400,
    Refusal.INVALID_OPTIONS:          400,
    Refusal.INVALID_CONFIG:           400,
    Refusal.UNSUPPORTED_ACCESS_MODEL: 400,
    Refusal.UNSUPPORTED:              501,
    Refusal.FOREIGN_JID:              403,
    Refusal.NOT_SUBSCRIBED:           404,
    Refusal.PENDING_SUBSCRIPTION:     403,
    Refusal.NO_PRESENCE_SUBSCRIPTION: 403,
    Refusal.NOT_IN_ROSTER_GROUP:      403,
    Refusal.NOT_APPROVED:             403,
    Refusal.NOT_ALL_CHANGED:          400,
    Refusal.TOO_MANY_SUBSCRIPTIONS:   429,
    Refusal.SUBID_REQUIRED:           400,
    Refusal.INVALID_SUBID:            400,
    Refusal.LAST_OWNER:               403,
    Refusal.BAD_REQUEST:              400,
    Refusal.TOO_MUCH_KEPT:            507,
    Refusal.TOO_MANY_NODES:           429,
    Refusal.TOO_MUCH_STAGED:          503,
    Refusal.TOO_MANY_KEYS:            429,
    Refusal.KEY_REUSED:               422,
    Refusal.NOT_TRUSTED:              403,
    Refusal.TOO_MUCH_HELD:            503,
    Refusal.UNKNOWN_MESSAGE:          404,
    Refusal.STILL_NOTIFYING:            503,
    Refusal.NOT_AS_STAGED:            409,
    Refusal.PRECONDITION_NOT_MET:     409,
    Refusal.ITEM_REQUIRED:            400,
    Refusal.ITEM_FORBIDDEN:           400,
    Refusal.PAYLOAD_REQUIRED:         400,
    Refusal.WINDOW_FULL:              429,
    Refusal.TOO_MANY_SIGNALS:         429,
    Refusal.TOO_MANY_WAITING:         429,
    Refusal.MOVED:                    410,
    Refusal.WRONG_PAYLOAD:            400,
    Refusal.STORE_FAILED:             503,
    Refusal.INTERNAL_FAULT:           500,
}
# fmt: on


# Problem details (RFC 9457), and the name of every refusal as one table; the statuses are `faces.http_status`.

URN: Final = "urn:x-pubqueue:problem:"

# fmt: off
NAMES: Final[dict[Refusal, str]] = {
    Refusal.NODE_NOT_FOUND:           "not-found",
    Refusal.ITEM_NOT_FOUND:           "not-found",
    Refusal.NOT_SUBSCRIBED:           "not-found",
    Refusal.FORBIDDEN:                "forbidden",
    Refusal.NOT_YOURS:                "forbidden",
    Refusal.CLOSED_NODE:              "forbidden",
    Refusal.NOT_APPROVED:             "forbidden",
    Refusal.PENDING_SUBSCRIPTION:     "forbidden",
    Refusal.NO_PRESENCE_SUBSCRIPTION: "forbidden",
    Refusal.NOT_IN_ROSTER_GROUP:      "forbidden",
    Refusal.FOREIGN_JID:              "forbidden",
    Refusal.LAST_OWNER:               "forbidden",
    Refusal.MOVED:                    "moved",
    Refusal.ITEM_EXISTS:              "dead",
    Refusal.ITEM_LOCKED:              "being-worked-on",
    Refusal.NODE_EXISTS:              "exists",
    Refusal.PRECONDITION_NOT_MET:     "differs",
    Refusal.NOT_AS_STAGED:            "differs",
    Refusal.LOCK_LOST:                "lock-lost",
    Refusal.LOCKED_BY_ANOTHER:        "lock-lost",
    Refusal.PAYLOAD_TOO_BIG:          "too-large",
    Refusal.TOO_MANY_ITEMS:           "too-large",
    Refusal.HEADERS_TOO_BIG:          "headers-too-large",
    Refusal.KEY_REUSED:               "key-reused",
    Refusal.NOT_TRUSTED:              "forbidden",
    Refusal.TOO_MUCH_HELD:            "busy",
    Refusal.UNKNOWN_MESSAGE:          "not-found",
    Refusal.BAD_REQUEST:              "bad-request",
    Refusal.ITEM_REQUIRED:            "bad-request",
    Refusal.ITEM_FORBIDDEN:           "bad-request",
    Refusal.PAYLOAD_REQUIRED:         "bad-request",
    Refusal.WRONG_PAYLOAD:            "bad-request",
    Refusal.INVALID_CONFIG:           "bad-request",
    Refusal.INVALID_OPTIONS:          "bad-request",
    Refusal.INVALID_SUBID:            "bad-request",
    Refusal.SUBID_REQUIRED:           "bad-request",
    Refusal.CONFIGURATION_REQUIRED:   "bad-request",
    Refusal.UNSUPPORTED_ACCESS_MODEL: "bad-request",
    Refusal.NOT_ALL_CHANGED:          "bad-request",
    Refusal.NODE_FULL:                "full",
    Refusal.TOO_MUCH_KEPT:            "full",
    Refusal.PUBLISH_PAUSED:           "paused",
    Refusal.STILL_NOTIFYING:          "busy",
    Refusal.TOO_MUCH_STAGED:          "busy",
    Refusal.TOO_MANY_SUBSCRIPTIONS:   "too-many",
    Refusal.TOO_MANY_NODES:           "too-many",
    Refusal.TOO_MANY_KEYS:            "too-many",
    Refusal.TOO_MANY_WAITING:         "too-many",
    Refusal.WINDOW_FULL:              "too-many",
    Refusal.TOO_MANY_SIGNALS:         "too-many",
    Refusal.UNSUPPORTED:              "unsupported",
    Refusal.NOT_A_QUEUE:              "unsupported",
    Refusal.INTERNAL_FAULT:           "fault",
    Refusal.STORE_FAILED:             "unavailable",
}
# fmt: on
"""The name of each refusal, the last part of the `type` of its problem."""

TITLES: Final = {
    "unauthorized": "Credentials are missing or wrong",
    "forbidden": "The account may not do this",
    "target-not-allowed": "Messages may not be pushed there",
    "not-found": "Not found",
    "moved": "The destination has moved",
    "method-not-allowed": "The resource does not have this method",
    "already-done": "Already done",
    "too-slow": "The body took too long",
    "dead": "The message is dead",
    "being-worked-on": "The message is in flight",
    "exists": "The destination exists",
    "differs": "The destination has other settings",
    "lock-lost": "The lock is over",
    "precondition-failed": "The precondition does not hold",
    "too-large": "The request is too large",
    "media-type": "The media type is not accepted here",
    "key-reused": "The key was used for another message",
    "headers-too-large": "The headers are too large",
    "bad-request": "The request has an error",
    "body-not-expected": "The request must not have a body",
    "full": "The destination is full",
    "paused": "Publishing is paused",
    "busy": "The destination is busy",
    "too-many": "There are too many",
    "unsupported": "This is not supported",
    "selector-unsupported": "Selectors are not supported",
    "fault": "The service has met a defect",
    "unavailable": "The service cannot answer now",
    "nothing-yet": "There is no message yet",
}
"""The `title` of each problem."""

RETRY_AFTER: Final = {"paused": 5, "busy": 5, "too-many": 1, "unavailable": 1, "nothing-yet": 1}
"""Seconds after which a client may try again."""

DETAILS: Final = {
    Refusal.NODE_NOT_FOUND: "there is no such destination",
    Refusal.ITEM_NOT_FOUND: "there is no such message, or it is done",
    Refusal.WINDOW_FULL: "the account has as many messages of the queue in flight as it may have",
}
"""Sentences for refusals without any of their own."""


class ProblemError(Exception):
    """A request cannot be answered as asked; `response` is the answer. `close` ends the connection after it."""

    def __init__(  # the fields of a problem
        self,
        status: int,
        name: str,
        detail: str = "",
        *,
        headers: Iterable[tuple[str, str]] = (),
        close: bool = False,
        refusal: Refusal | None = None,
        **more: Any,  # noqa: ANN401  # further members of the document
    ) -> None:
        super().__init__(name)
        self.status, self.name, self.detail = status, name, detail
        self.headers, self.close, self.refusal, self.more = list(headers), close, refusal, more

    @property
    def document(self) -> bytes:
        """The problem document."""
        document: dict[str, Any] = {
            "type": URN + self.name,
            "title": TITLES[self.name],
            "status": self.status,
        }
        if self.detail:
            document["detail"] = self.detail
        document |= {name: value for name, value in self.more.items() if value is not None}
        return msgspec.json.encode(document)

    def response(self) -> web.Response:
        """Return the answer."""
        answer = web.Response(body=self.document, status=self.status, content_type=MEDIA_TYPE)
        for name, value in self.headers:
            answer.headers.add(name, value)
        if "Retry-After" not in answer.headers and self.name in RETRY_AFTER:
            answer.headers["Retry-After"] = f"{RETRY_AFTER[self.name]}"
        if self.close:
            answer.force_close()
            answer.headers["Connection"] = "close"
        return answer


def refused(reply: Refused, sizes: Sequence[int] = ()) -> ProblemError:
    """Return the problem of a refusal; `sizes` are those of the payloads as they would be stored, which is more than was sent."""
    refusal, headers = reply.refusal, []
    if refusal is Refusal.MOVED:
        headers.append(("Link", f'<{reply.reason}>; rel="successor-version"'))
    detail = reply.reason or DETAILS.get(refusal, "")
    size = None
    if refusal is Refusal.PAYLOAD_TOO_BIG and not detail and reply.limit is not None:
        size = next((one for one in sizes if one > reply.limit), None)
        stored = "" if size is None else f"; as it is stored it has {size}"
        detail = f"a message has up to {reply.limit} bytes as it is stored here{stored}"
    return ProblemError(
        STATUS[refusal],
        NAMES[refusal],
        detail,
        headers=headers,
        refusal=refusal,
        limit=reply.limit,
        size=size,
        index=reply.part,
    )


def not_found(detail: str = "there is no such resource") -> ProblemError:
    """Return the problem of a resource that does not exist."""
    return ProblemError(404, "not-found", detail)


def bad_request(detail: str) -> ProblemError:
    """Return the problem of a request with an error."""
    return ProblemError(400, "bad-request", detail)


def unavailable(detail: str = "the service is not at work") -> ProblemError:
    """Return the problem of a service that cannot answer now."""
    return ProblemError(503, "unavailable", detail)


# Answers that no part makes, and the headers of all answers.

PROBLEMS: Final = {
    401: "unauthorized",
    403: "forbidden",
    404: "not-found",
    405: "method-not-allowed",
    408: "too-slow",
    413: "too-large",
    431: "headers-too-large",
    500: "fault",
    501: "unsupported",
    503: "unavailable",
    504: "unavailable",
}
"""The problem of each status that no part answers with; any other is a bad request."""


def of_status(
    status: int, detail: str = "", headers: Iterable[tuple[str, str]] = ()
) -> ProblemError:
    """Return the problem of a status that no part answers with."""
    return ProblemError(status, PROBLEMS.get(status, "bad-request"), detail, headers=headers)


NAME: Final = "pubqueue"
"""The value of the header `Server`, without versions, which clients need not know."""

CLOSED: Final = {
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""Headers of each answer: what users have published runs in no browser, and least of all in the origin of the page.

A part that has pages of its own sets a policy for them.
"""

OWN_TYPES: Final = frozenset(
    {"application/json", "application/problem+json", "text/event-stream", "text/plain"}
)
"""Types of what the service writes, which a browser may show; anything else is a download, unless its part has a policy for it."""


def last_answer(status: int, body: bytes, kind: str) -> bytes:
    """Return the bytes of an answer after which the connection ends."""
    fields = {"Server": NAME, "Connection": "close", **CLOSED}
    fields |= {"Content-Type": kind, "Content-Length": f"{len(body)}"}
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        fields["Retry-After"] = "5"
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n{head}\r\n".encode() + body


def close(response: web.StreamResponse) -> None:
    """Add the headers of each answer, unless its part has set others."""
    headers = response.headers
    if "Content-Security-Policy" not in headers and response.content_type not in OWN_TYPES:
        headers.setdefault("Content-Disposition", "attachment")
    for name, value in CLOSED.items():
        headers.setdefault(name, value)
