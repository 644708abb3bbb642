"""The routes of `rest-star`, with the parameters and answers of each."""

from __future__ import annotations

from typing import Any, Final

from pubqueue.faces.rest import openapi
from pubqueue.faces.rest.links import Profile, Route
from pubqueue.faces.rest.openapi import (
    ANY,
    ATOM,
    FORM,
    JSON,
    TEXT,
    URIS,
    Described,
    OperationTable,
    fields,
)
from pubqueue.faces.rest.star import consuming, destinations, publishing, subscribers, waits

# The parameters and answers of each operation of `rest-star`.

_NUMBER: Final = {"type": "number", "minimum": 0}
_COUNT: Final = {"type": "integer", "minimum": 0}
_FORM_FIELDS: Final = {
    "type": "object",
    "additionalProperties": {
        "anyOf": [
            *({"type": kind} for kind in ("string", "number", "boolean")),
            {"type": "array", "items": TEXT},
        ]
    },
}
_COUNTS: Final = fields(
    {"messages": _COUNT}, dict.fromkeys(("queued", "locked", "delayed", "held", "dead"), _COUNT)
)
_SIGNAL: Final = fields({**dict.fromkeys(("name", "id", "data", "by"), TEXT), "at": _COUNT})
_REGISTRATION: Final = fields(dict.fromkeys(("id", "rel", "href", "secret"), TEXT))
_BYTES: Final[dict[str, Any]] = {}

_WAIT: Final[dict[str, dict[str, Any]]] = {
    "Prefer": {"type": "string", "examples": ["wait=30"]},
    "Accept-Wait": _NUMBER,
}
_OF_MESSAGE: Final[dict[str, dict[str, Any]]] = {
    "Message-Id": TEXT,
    "Message-Priority": {"type": "integer"},
    "Message-Delay": _NUMBER,
    "Message-Ttl": _NUMBER,
    "Message-Group": TEXT,
    "Correlation-Id": TEXT,
    "Idempotency-Key": TEXT,
    "If-None-Match": {"const": "*"},
}
_IF_MATCH: Final[dict[str, dict[str, Any]]] = {"If-Match": {"type": "string", "examples": ['"17"']}}
_REFUSED: Final = (405, 409, 412, 422, 501, 507)
"""Problems of a publish."""
_NOTHING: Final = {
    202: ("There is no message yet, if the service is configured so.", None),
    204: (
        "There is no message yet; if the client waits by `Prefer`, or the service is configured so.",
        None,
    ),
}
_MESSAGE: Final = {200: ("The message.", ANY)}
_DELETED: Final = {204: ("It is gone.", None)}
_SUBSCRIBERS: Final = {200: ("An Atom document.", ATOM)}
_LINK: Final = {
    "type": "string",
    "examples": ['<link rel="post-message" href="https://hooks.example.org/"/>'],
}
_BATCH: Final = {ATOM: TEXT, "multipart/mixed": TEXT}
_LISTED: Final = ("The URLs of the messages.", URIS)


def _described(kind: str) -> dict[tuple[str, str], Described]:
    """Return the operations of a destination."""
    return {
        ("GET", kind): Described(
            f"Get a {kind} and its links",
            {200: ("Its name, kind, links and counts.", JSON)},
            shown=fields(
                {
                    "name": TEXT,
                    "kind": {"const": kind},
                    "links": {"type": "object", "additionalProperties": TEXT},
                },
                {"counts": _COUNTS},
            ),
        ),
        ("PUT", kind): Described(
            f"Create a {kind}",
            {201: ("It was created.", None), 200: ("It exists.", None)},
            (409, 412, 501, 507),
            headers={"Message-Ack-Mode": TEXT, "If-None-Match": {"const": "*"}},
            body={JSON: _FORM_FIELDS},
        ),
        ("DELETE", kind): Described(f"Delete a {kind} with its messages", _DELETED),
    }


SIGNAL: Final = Described(
    "Send a message a signal",
    {200: ("The state of the message.", JSON)},
    (415, 507),
    body={FORM: {"type": "object", "properties": {"signal": TEXT, "data": TEXT, "id": TEXT}}},
    needs_body=True,
    shown=fields({"state": TEXT, "wakes": {"type": "boolean"}, "again": {"type": "boolean"}}),
)
WAITED: Final = Described(
    "Read what has come for a message",
    {200: ("What it carries, and the signals.", JSON)},
    shown=fields({"signals": {"type": "array", "items": _SIGNAL}}, {"carry": TEXT}),
)

STAR: Final[OperationTable] = {
    **_described("queue"),
    **_described("topic"),
    ("POST", "post-message"): Described(
        "Publish a message",
        {
            201: ("The message is on disk.", None),
            200: ("It was there, or took the place of another.", None),
        },
        _REFUSED,
        headers=_OF_MESSAGE,
        body={ANY: _BYTES},
    ),
    ("POST", "post-message-once"): Described(
        "Get a link that publishes one message", {200: ("The link is `create-next`.", None)}
    ),
    ("POST", "post-batch-once"): Described(
        "Get a link that publishes one batch", {200: ("The link is `create-next`.", None)}
    ),
    ("POST", "create-next"): Described(
        "Publish by a one-off link",
        {200: ("It is on disk.", URIS)},
        (*_REFUSED, 415),
        headers=_OF_MESSAGE,
        body={ANY: _BYTES},
    ),
    ("GET", "create-next"): Described("Never: a one-off link is posted to", {}, (405,)),
    ("POST", "post-batch"): Described(
        "Publish messages, all or none",
        {201: _LISTED, 200: _LISTED},
        (*_REFUSED, 415),
        headers={"Idempotency-Key": TEXT},
        body=_BATCH,
        needs_body=True,
    ),
    ("GET", "batch"): Described("List the messages of a batch", {200: _LISTED}),
    ("GET", "message"): Described("Look at a message", _MESSAGE, (501,)),
    ("DELETE", "message"): Described(
        "Acknowledge or retract a message", _DELETED, (405, 409, 412, 501), headers=_IF_MATCH
    ),
    ("GET", "first"): Described(
        "Get the oldest message", {**_MESSAGE, **_NOTHING}, (501,), headers=_WAIT
    ),
    ("GET", "last"): Described(
        "Get the newest message", {**_MESSAGE, **_NOTHING}, (501,), headers=_WAIT
    ),
    ("GET", "next"): Described(
        "Get the next message, or wait for it",
        {**_MESSAGE, **_NOTHING},
        (501,),
        headers=_WAIT,
    ),
    ("GET", "events"): Described(
        "Follow the messages of a topic, or the counts of a queue",
        {200: ("Server-sent events.", "text/event-stream")},
        (501,),
        headers={"Last-Event-ID": TEXT},
    ),
    ("GET", "acknowledgement"): Described(
        "See whether the lock holds", {204: ("It holds.", None)}, (412,)
    ),
    ("POST", "acknowledgement"): Described(
        "Acknowledge a message, give it back, or keep it longer",
        {204: ("It is done.", None)},
        (405, 409, 412, 415, 501),
        headers=_IF_MATCH,
        body={
            FORM: {
                "type": "object",
                "properties": {
                    "acknowledge": {"enum": ["true", "false"]},
                    "touch": TEXT,
                    "outcome": {"enum": ["release", "failed", "reject"]},
                    "delay": TEXT,
                    "reason": TEXT,
                },
            }
        },
        needs_body=True,
    ),
    ("POST", "hold"): Described(
        "Let a message wait for signals, or for a time",
        {204: ("It waits.", None)},
        (409, 412, 415, 501, 507),
        headers=_IF_MATCH,
        body={
            FORM: {
                "type": "object",
                "properties": {
                    "signal": {"type": "array", "items": TEXT},
                    "within": TEXT,
                    "then": {"enum": ["deliver", "dead", "discard"]},
                    "carry": TEXT,
                },
            }
        },
        needs_body=True,
    ),
    ("POST", "signal"): SIGNAL,
    ("GET", "waited"): WAITED,
    ("POST", "subscribers"): Described(
        "Register a URL that messages are pushed to",
        {201: ("It is registered; the body has the secret.", JSON)},
        (409, 415, 422, 501, 507),
        body={
            ATOM: _LINK,
            FORM: {
                "type": "object",
                "properties": {"subscriber": {"type": "string", "format": "uri"}},
            },
        },
        needs_body=True,
        shown=_REGISTRATION,
    ),
    ("GET", "subscribers"): Described("List registrations", _SUBSCRIBERS, query={"after": TEXT}),
    ("GET", "subscriber"): Described("Get a registration", _SUBSCRIBERS),
    ("POST", "subscriber"): Described(
        "Disable or enable a registration",
        {204: ("It is done.", None)},
        (415,),
        body={FORM: {"type": "object", "properties": {"state": {"enum": ["active", "disabled"]}}}},
        needs_body=True,
    ),
    ("DELETE", "subscriber"): Described("End a registration", _DELETED),
    ("POST", "consumer"): Described(
        "Take the next message",
        {**_MESSAGE, **_NOTHING},
        (405, 409, 501),
        headers={**_WAIT, "Message-Selector": {"const": ""}},
        query={"selector": {"const": ""}},
    ),
    ("GET", "openapi"): Described("This description", {200: ("An OpenAPI document.", ANY)}),
}


# The routes of `rest-star`: the table of its resources.

_ACK: Final = "/queues/{node}/messages/{id}/acknowledgement"


def _once() -> tuple[Route, ...]:
    """Return the routes of one-off links."""
    found: list[Route] = []
    for kind in publishing.ONE_OFFS:
        begin, post, look = publishing.handlers(kind)
        place = f"/{'queues' if kind.is_queue else 'topics'}/{{node}}/{kind.below}"
        found += [
            Route("POST", place, begin, kind.rel),
            Route("POST", place + "/{key}", post, "create-next"),
            Route("GET", place + "/{key}", look, "create-next"),
        ]
    return tuple(found)


ONCE: Final = _once()

# fmt: off
ROUTES: Final = (
    Route("GET",    "/queues/{node}",                 destinations.get_queue,     "queue"),
    Route("PUT",    "/queues/{node}",                 destinations.put_queue,     "queue"),
    Route("DELETE", "/queues/{node}",                 destinations.delete_queue,  "queue"),
    Route("GET",    "/topics/{node}",                 destinations.get_topic,     "topic"),
    Route("PUT",    "/topics/{node}",                 destinations.put_topic,     "topic"),
    Route("DELETE", "/topics/{node}",                 destinations.delete_topic,  "topic"),
    Route("POST",   "/queues/{node}/messages",        publishing.post_to_queue,   "post-message"),
    Route("POST",   "/topics/{node}/messages",        publishing.post_to_topic,   "post-message"),
    Route("POST",   "/nodes/{node}/messages",         publishing.post_to_node,    "post-message"),
    *ONCE,
    Route("POST",   "/queues/{node}/batches",         publishing.post_batch_to_queue,      "post-batch"),
    Route("POST",   "/topics/{node}/batches",         publishing.post_batch_to_topic,      "post-batch"),
    Route("GET",    "/queues/{node}/batches/{key};n={count}", publishing.get_of_queue, "batch"),
    Route("GET",    "/topics/{node}/batches/{key};n={count}", publishing.get_of_topic, "batch"),
    Route("GET",    "/queues/{node}/messages/{id}",   destinations.get_of_queue,      "message"),
    Route("DELETE", "/queues/{node}/messages/{id}",   destinations.delete_of_queue,   "message"),
    Route("GET",    "/topics/{node}/messages/{id}",   destinations.get_of_topic,      "message"),
    Route("DELETE", "/topics/{node}/messages/{id}",   destinations.delete_of_topic,   "message"),
    Route("GET",    "/nodes/{node}/messages/{id}",    destinations.get_of_node,       "message"),
    Route("GET",    "/topics/{node}/first",           destinations.first,               "first"),
    Route("GET",    "/topics/{node}/last",            destinations.last,                "last"),
    Route("GET",    "/topics/{node}/next",            destinations.upcoming,            "next"),
    Route("GET",    "/topics/{node}/after/{number}",  destinations.after,               "next"),
    openapi.route(STAR),
    Route("GET",    "/queues/{node}/events",          subscribers.of_queue,            "events"),
    Route("GET",    "/topics/{node}/events",          subscribers.of_topic,            "events"),
    Route("GET",    _ACK + ";etag={token}",           consuming.look,         "acknowledgement"),
    Route("GET",    _ACK + "/{token}",                consuming.look,         "acknowledgement"),
    Route("POST", "/queues/{node}/subscribers", subscribers.post_to_queue, "subscribers"),
    Route("GET", "/queues/{node}/subscribers", subscribers.list_of_queue, "subscribers"),
    Route("GET", "/queues/{node}/subscribers/{name}", subscribers.get_of_queue, "subscriber"),
    Route("POST", "/queues/{node}/subscribers/{name}", subscribers.set_of_queue, "subscriber"),
    Route("POST", "/topics/{node}/subscribers/{name}", subscribers.set_of_topic, "subscriber"),
    Route("DELETE", "/queues/{node}/subscribers/{name}", subscribers.delete_of_queue, "subscriber"),
    Route("POST", "/topics/{node}/subscribers", subscribers.post_to_topic, "subscribers"),
    Route("GET", "/topics/{node}/subscribers", subscribers.list_of_topic, "subscribers"),
    Route("GET", "/topics/{node}/subscribers/{name}", subscribers.get_of_topic, "subscriber"),
    Route("DELETE", "/topics/{node}/subscribers/{name}", subscribers.delete_of_topic, "subscriber"),
    Route("POST",   "/queues/{node}/consumer",        consuming.take,             "consumer"),
    Route("POST",   _ACK + ";etag={token}",           consuming.acknowledge,  "acknowledgement"),
    Route("POST",   _ACK + "/{token}",                consuming.acknowledge,  "acknowledgement"),
    Route("POST",   "/queues/{node}/messages/{id}/hold;etag={token}", waits.hold,  "hold"),
    Route("POST",   "/queues/{node}/messages/{id}/signals", waits.signal,     "signal"),
    Route("GET",    "/queues/{node}/messages/{id}/waited", waits.waited,      "waited"),
)
# fmt: on


def profile(prefix: str) -> Profile:
    """Return the profile below this prefix."""
    return Profile("rest-star", prefix, ROUTES, openapi.words_of(STAR))
