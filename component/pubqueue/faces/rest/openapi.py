"""The OpenAPI 3.1 document of a profile, and the resource that returns it."""

from __future__ import annotations

import re
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from pubqueue.faces.http.problems import MEDIA_TYPE, TITLES
from pubqueue.faces.rest.exchange import answer
from pubqueue.faces.rest.links import Route, Words

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aiohttp import web

    from pubqueue.faces.rest.exchange import Exchange
    from pubqueue.faces.rest.links import Profile


# An OpenAPI 3.1 document, made from the routes of a profile and from the table of their parameters and answers.

JSON: Final = "application/json"
ATOM: Final = "application/atom+xml"
FORM: Final = "application/x-www-form-urlencoded"
URIS: Final = "text/uri-list"
ANY: Final = "*/*"

TEXT: Final = {"type": "string"}
_VARIABLE: Final = re.compile(r"\{(\w+)\}")

PROBLEMS: Final = {
    400: "The request has an error.",
    401: "The request has no valid credentials.",
    403: "The account may not do this, or the request comes from a page of an origin that is not listed.",
    404: "There is nothing here for the account.",
    405: "The resource does not have this method, or this has been done.",
    408: "The body took too long.",
    409: "The state of the message or the destination does not allow it.",
    410: "The destination has moved, or the lock is over.",
    412: "The lock is over, or a precondition does not hold.",
    413: "The request is too large.",
    415: "The media type is not accepted here.",
    417: "The expectation is not known.",
    422: "The key was used for another message.",
    429: "There are too many requests, messages in flight, or wrong credentials.",
    431: "The headers are too large.",
    500: "The service has met a fault, which it has logged.",
    501: "This is not supported.",
    503: "The service cannot answer at present, or there is no message yet.",
    507: "The destination is full.",
}
"""Statuses of problems, with their meanings."""

ALWAYS: Final = (400, 401, 403, 404, 408, 410, 413, 417, 429, 431, 500, 503)
"""Problems that every operation may have."""


class Described(Struct, frozen=True):
    """An operation: its sentence, its answer (a description and a media type, if it has a body), its problems, and its parameters.

    `headers` are header parameters, with their schemas; `body` are media types with schemas, and `needs_body` whether a body is
    required. `shown` is the schema of an answer in JSON.
    """

    summary: str
    answers: Mapping[int, tuple[str, str | None]]
    problems: tuple[int, ...] = ()
    headers: Mapping[str, dict[str, Any]] = {}
    body: Mapping[str, dict[str, Any]] = {}
    needs_body: bool = False
    query: Mapping[str, dict[str, Any]] = {}
    shown: Mapping[str, Any] = {}


def words_of(table: OperationTable) -> dict[tuple[str, str], Words]:
    """Return what each operation reads."""
    return {
        key: Words(
            frozenset(name.lower() for name in one.headers),
            frozenset(one.query),
            publishes=ANY in one.body,
        )
        for key, one in table.items()
    }


OperationTable = dict[tuple[str, str], Described]
"""Operations by method, and by the word of the route."""


def document(profile: Profile, table: OperationTable, base: str, version: str) -> dict[str, Any]:
    """Return the document of a profile. Paths are below its prefix at the base URL."""
    paths: dict[str, Any] = {}
    for route in profile.routes:
        operations = paths.setdefault(route.path, {"parameters": _in_path(route)})
        operations[route.method.lower()] = _operation(route, table[route.method, route.word])
    return {
        "openapi": "3.1.0",
        "info": {
            "title": f"pubqueue: {profile.name}",
            "version": version,
            "description": "Begin at a queue or a topic: all other URLs are links of answers.",
        },
        "servers": [{"url": base + profile.prefix}],
        "security": [{"basic": []}, {"bearer": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic"},
                "bearer": {"type": "http", "scheme": "bearer"},
            },
            "schemas": {"Problem": PROBLEM},
            "responses": {f"{status}": _problem(text) for status, text in PROBLEMS.items()},
        },
    }


PROBLEM: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["type", "title", "status"],
    "properties": {
        "type": {"enum": [f"urn:x-pubqueue:problem:{name}" for name in TITLES]},
        "title": {"enum": list(TITLES.values())},
        "status": {"type": "integer"},
        "detail": TEXT,
        "limit": {"type": "integer"},
        "index": {"type": "integer"},
    },
}


def _problem(text: str) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Problem"}
    return {"description": text, "content": {MEDIA_TYPE: {"schema": schema}}}


def _in_path(route: Route) -> list[dict[str, Any]]:
    names = dict.fromkeys(_VARIABLE.findall(route.path))
    schema = {"type": "string", "minLength": 1}
    return [{"name": name, "in": "path", "required": True, "schema": schema} for name in names]


def _operation(route: Route, described: Described) -> dict[str, Any]:
    answers = {
        f"{status}": _answer(*what, described.shown) for status, what in described.answers.items()
    }
    for status in sorted({*ALWAYS, *described.problems}):
        answers.setdefault(f"{status}", {"$ref": f"#/components/responses/{status}"})
    found: dict[str, Any] = {
        "operationId": _name(route),
        "summary": described.summary,
        "responses": answers,
    }
    parameters = [
        {"name": name, "in": place, "required": False, "schema": schema}
        for place, each in (("header", described.headers), ("query", described.query))
        for name, schema in each.items()
    ]
    if parameters:
        found["parameters"] = parameters
    if described.body:
        content = {kind: {"schema": schema} for kind, schema in described.body.items()}
        found["requestBody"] = {"required": described.needs_body, "content": content}
    return found


def _name(route: Route) -> str:
    """Return a name that no other operation has: the method, and the words of its path."""
    words = re.findall(r"[A-Za-z]+", route.path)
    return "".join([route.method.lower(), *(word[:1].upper() + word[1:] for word in words)])


def _answer(text: str, kind: str | None, shown: Mapping[str, Any]) -> dict[str, Any]:
    schema = shown if kind == JSON else {} if kind == ANY else TEXT
    return {"description": text} | ({"content": {kind: {"schema": schema}}} if kind else {})


def fields(required: Mapping[str, Any], optional: Mapping[str, Any] = {}) -> dict[str, Any]:
    """Return the schema of an object with these fields and no others."""
    return {
        "type": "object",
        "required": list(required),
        "properties": {**required, **optional},
        "additionalProperties": False,
    }


# The resource that returns the OpenAPI document of its profile.

OPENAPI_TYPE = "application/vnd.oai.openapi+json"
PATH = "openapi.json"


def route(table: OperationTable) -> Route:
    """Return the route that returns the document of this table."""

    async def get(exchange: Exchange) -> web.Response:
        found = document(exchange.profile, table, exchange.base, version("pubqueue"))
        return answer(200, body=msgspec.json.encode(found), kind=OPENAPI_TYPE)

    return Route("GET", f"/{PATH}", get, "openapi")
