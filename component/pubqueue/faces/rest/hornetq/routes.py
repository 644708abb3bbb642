"""The routes of `hornetq`, with the parameters and answers of each."""

from __future__ import annotations

from typing import Any, Final

from pubqueue.faces.rest import openapi
from pubqueue.faces.rest.hornetq import destinations, pulling, pushing, subscribing
from pubqueue.faces.rest.links import Profile, Route
from pubqueue.faces.rest.openapi import ANY, FORM, TEXT, Described, OperationTable
from pubqueue.faces.rest.star import waits
from pubqueue.faces.rest.star.destinations import delete_queue, delete_topic
from pubqueue.faces.rest.star.routes import STAR

# The parameters and answers of each operation of `hornetq`.

XML: Final = "application/xml"
_FORM_FIELDS: Final = {"type": "object", "additionalProperties": TEXT}
_WAIT: Final[dict[str, dict[str, Any]]] = {"Accept-Wait": {"type": "number", "minimum": 0}}
_QUERY: Final[dict[str, dict[str, Any]]] = {
    "durable": {"enum": ["true", "false"]},
    "priority": {"type": "integer"},
    "ttl": {"type": "integer", "minimum": 0},
    "expiration": {"type": "integer", "minimum": 0},
}
_MESSAGE: Final = {
    200: ("The message.", ANY),
    202: ("There is no message yet, if the service is configured so.", None),
    204: (
        "There is no message yet; if the client waits by `Prefer`, or the service is configured so.",
        None,
    ),
}
_CREATED: Final = {
    201: ("The message is on disk.", None),
    307: ("The body belongs to the URL in `Location`.", None),
}
_REFUSED: Final = (405, 409, 412, 422, 501, 507)
_GONE: Final = {204: ("It is gone.", None)}
_VERDICT: Final = {"type": "object", "properties": {"acknowledge": {"enum": ["true", "false"]}}}

HORNETQ: Final[OperationTable] = {
    **{
        ("POST", f"{kind}s"): Described(
            f"Create a {kind}",
            {201: ("It was created.", None)},
            (412, 415, 501, 507),
            body={XML: {"type": "string", "examples": [f'<{kind} name="jobs"/>']}},
            needs_body=True,
        )
        for kind in ("queue", "topic")
    },
    **{
        ("GET", kind): Described(f"Get the links of a {kind}", {200: ("Its links.", XML)})
        for kind in ("queue", "topic")
    },
    **{
        ("DELETE", kind): Described(f"Delete a {kind} with its messages", _GONE)
        for kind in ("queue", "topic")
    },
    ("POST", "create"): Described(
        "Create a message", _CREATED, _REFUSED, body={ANY: {}}, query=_QUERY
    ),
    ("POST", "create-with-id"): Described(
        "Create one message under an id", _CREATED, _REFUSED, body={ANY: {}}, query=_QUERY
    ),
    ("PUT", "create-with-id"): Described(
        "Create one message under an id", _CREATED, _REFUSED, body={ANY: {}}, query=_QUERY
    ),
    ("POST", "pull-consumers"): Described(
        "Make a pull consumer, or a subscription of a topic",
        {201: ("It was made; a link leads to its first message.", None)},
        (415, 501),
        body={FORM: _FORM_FIELDS},
    ),
    ("GET", "pull-consumer"): Described(
        "See which link of a consumer is due", {204: ("The link is a header.", None)}
    ),
    ("DELETE", "pull-consumer"): Described("Close a consumer", _GONE, (409, 412)),
    ("POST", "consume-next"): Described(
        "Get the next message, which is acknowledged as it is sent",
        _MESSAGE,
        (412, 501),
        headers=_WAIT,
    ),
    ("POST", "acknowledge-next"): Described(
        "Get the next message, or the one that is not acknowledged yet",
        _MESSAGE,
        (409, 501),
        headers=_WAIT,
    ),
    ("POST", "acknowledgement"): Described(
        "Acknowledge a message, or give it back",
        {204: ("It is done.", None)},
        (412, 415, 501),
        body={FORM: _VERDICT},
        needs_body=True,
    ),
    ("POST", "hold"): STAR["POST", "hold"],
    ("POST", "signal"): STAR["POST", "signal"],
    ("GET", "waited"): STAR["GET", "waited"],
    ("POST", "push-consumers"): Described(
        "Register a URL that messages are pushed to",
        {201: ("It is registered.", None)},
        (415, 501, 507),
        body={XML: {"type": "string"}},
        needs_body=True,
    ),
    ("GET", "push-consumer"): Described("Get a registration", {200: ("The registration.", XML)}),
    ("DELETE", "push-consumer"): Described("End a registration", _GONE),
    ("GET", "openapi"): Described("This description", {200: ("An OpenAPI document.", ANY)}),
}


# The routes of `hornetq`: the table of its resources.

_CONSUMER: Final = "/queues/{node}/pull-consumers/attributes-{kind}/{name}"
_SUBSCRIPTION: Final = "/topics/{node}/pull-subscriptions/attributes-{kind}/{name}"

# fmt: off
ROUTES: Final = (
    openapi.route(HORNETQ),
    Route("POST",   "/queues",                    destinations.create_queue, "queues"),
    Route("POST",   "/topics",                    destinations.create_topic, "topics"),
    Route("GET",    "/queues/{node}",             destinations.get_queue,    "queue"),
    Route("DELETE", "/queues/{node}",             delete_queue,              "queue"),
    Route("GET",    "/topics/{node}",             destinations.get_topic,    "topic"),
    Route("DELETE", "/topics/{node}",             delete_topic,              "topic"),
    Route("POST",   "/queues/{node}/pull-consumers", pulling.create, "pull-consumers"),
    Route("GET",    _CONSUMER,                    pulling.look,              "pull-consumer"),
    Route("DELETE", _CONSUMER,                    pulling.delete,            "pull-consumer"),
    Route("POST",   _CONSUMER + "/consume-next-{number}", pulling.consume,   "consume-next"),
    Route("POST",   _CONSUMER + "/acknowledge-next-{number}", pulling.acknowledge_next, "acknowledge-next"),
    Route("POST",   _CONSUMER + "/acknowledgement/{id}/{token}", pulling.acknowledge, "acknowledgement"),
    Route("POST",   _CONSUMER + "/hold/{id}/{token}", pulling.hold,          "hold"),
    Route("GET",    _CONSUMER + "/waited/{id}",   pulling.waited,            "waited"),
    Route("POST",   "/queues/{node}/messages/{id}/signals", waits.signal,    "signal"),
    Route("POST",   "/topics/{node}/pull-subscriptions", subscribing.create, "pull-consumers"),
    Route("GET",    _SUBSCRIPTION,                subscribing.look,          "pull-consumer"),
    Route("DELETE", _SUBSCRIPTION,                subscribing.delete,        "pull-consumer"),
    Route("POST",   _SUBSCRIPTION + "/consume-next-{number}", subscribing.consume, "consume-next"),
    Route("POST",   _SUBSCRIPTION + "/acknowledge-next-{number}", subscribing.acknowledge_next, "acknowledge-next"),
    Route("POST",   _SUBSCRIPTION + "/acknowledgement/{id}/{token}", subscribing.acknowledge, "acknowledgement"),
    Route("POST",   "/queues/{node}/push-consumers", pushing.create_of_queue, "push-consumers"),
    Route("GET",    "/queues/{node}/push-consumers/{name}", pushing.get_of_queue, "push-consumer"),
    Route("DELETE", "/queues/{node}/push-consumers/{name}", pushing.delete_of_queue, "push-consumer"),
    Route("POST",   "/topics/{node}/push-subscriptions", pushing.create_of_topic, "push-consumers"),
    Route("GET",    "/topics/{node}/push-subscriptions/{name}", pushing.get_of_topic, "push-consumer"),
    Route("DELETE", "/topics/{node}/push-subscriptions/{name}", pushing.delete_of_topic, "push-consumer"),
    Route("POST",   "/queues/{node}/create",      destinations.queue,            "create"),
    Route("POST",   "/topics/{node}/create",      destinations.topic,            "create"),
    Route("POST",   "/nodes/{node}/create",       destinations.node,             "create"),
    Route("POST",   "/queues/{node}/create/{id}", destinations.queue_with_id,    "create-with-id"),
    Route("PUT",    "/queues/{node}/create/{id}", destinations.queue_with_id,    "create-with-id"),
    Route("POST",   "/topics/{node}/create/{id}", destinations.topic_with_id,    "create-with-id"),
    Route("PUT",    "/topics/{node}/create/{id}", destinations.topic_with_id,    "create-with-id"),
)
# fmt: on


def profile(prefix: str) -> Profile:
    """Return the profile below this prefix."""
    return Profile("hornetq", prefix, ROUTES, openapi.words_of(HORNETQ), posting="create")
