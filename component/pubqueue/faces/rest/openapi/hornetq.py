"""The parameters and answers of each operation of `hornetq`."""

from __future__ import annotations

from typing import Any, Final

from pubqueue.faces.rest.openapi.document import ANY, FORM, TEXT, Described, OperationTable

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
    204: ("There is no message yet, if the service is configured so.", None),
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
