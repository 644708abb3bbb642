"""The operations as an HTTP API: their parameters, answers, and OpenAPI 3.1 description."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import msgspec

from pubqueue.faces.http.problems import MEDIA_TYPE, STATUS
from pubqueue.monitor.api.publishing import MAX_ITEMS
from pubqueue.monitor.asking import FORM
from pubqueue.operations.model import Cell, Given, ParameterKind, UnfitError, json_of, stamp

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pubqueue.operations.model import Answer, Column, Operation, Parameter


# The OpenAPI 3.1 description of the operations, generated from their table.

TEXT: Final = {"type": "string"}

KINDS: Final[dict[ParameterKind, dict[str, Any]]] = {
    ParameterKind.NODE: {"type": "string", "minLength": 1},
    ParameterKind.ITEM: {"type": "string", "minLength": 1},
    ParameterKind.JID: {"type": "string", "minLength": 1},
    ParameterKind.TEXT: TEXT,
    ParameterKind.LINES: {"type": "array", "items": TEXT},
    ParameterKind.COUNT: {"type": "integer", "minimum": 0},
    ParameterKind.NUMBER: {"type": "number"},
    ParameterKind.PAYLOAD: {},
    ParameterKind.FLAG: {"type": "boolean"},
    ParameterKind.CHOICE: {"type": "string"},
}
"""The schema of each kind of parameter in a JSON object."""

CELLS: Final[dict[Cell, dict[str, Any]]] = {
    Cell.TEXT: {"type": ["string", "null"]},
    Cell.COUNT: {"type": ["integer", "null"]},
    Cell.RATE: {"type": ["number", "null"]},
    Cell.MOMENT: {"type": ["string", "null"], "format": "date-time"},
    Cell.SINCE: {"type": ["string", "null"], "format": "date-time"},
    Cell.FLAG: {"type": ["boolean", "null"]},
    Cell.NAMES: {"type": ["array", "null"], "items": TEXT},
}

OWN: Final = {
    400: "A parameter, or the request, is invalid.",
    401: "The request has no valid credentials.",
    403: "The user may not do this, or the request comes from a page of another site.",
    404: "There is no such operation, node or item.",
    405: "The operation has another method.",
    406: "The client accepts no JSON.",
    408: "The body took too long.",
    413: "The body is too large.",
    415: "The body is neither JSON nor a form.",
    429: "There were too many attempts with wrong credentials.",
    500: "The service has met a fault, which it has logged.",
    503: "The service, or its store, does not answer at present.",
}
"""Statuses of errors that each operation may return, with their meanings."""


def document(operations: Iterable[Operation], version: str) -> dict[str, Any]:
    """Return the description. Paths are relative to the address of the document."""
    paths: dict[str, Any] = {
        "/operations": {"get": _reading("listOperations", "List the operations")},
        "/openapi.json": {"get": _reading("describeOperations", "This description")},
    }
    for one in operations:
        paths[f"/operations/{one.name}"] = {"post" if one.changes else "get": _operation(one)}
    paths["/publish"] = {"post": _publishing()}
    return {
        "openapi": "3.1.0",
        "info": {"title": "pubqueue: operations", "version": version},
        "servers": [{"url": "."}],
        "security": [{"basic": []}, {"bearer": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic"},
                "bearer": {"type": "http", "scheme": "bearer"},
            },
            "schemas": {"Problem": PROBLEM, "Error": ERROR},
            "responses": {str(status): _problem(status) for status in statuses()},
        },
    }


PROBLEM: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["type", "title", "status"],
    "properties": {
        "type": {"type": "string", "format": "uri"},
        "title": TEXT,
        "status": {"type": "integer"},
        "detail": TEXT,
        "error": {"$ref": "#/components/schemas/Error"},
    },
}

ERROR: Final[dict[str, Any]] = {
    "type": "object",
    "description": "The refusal as XMPP has it (RFC 6120 8.3, XEP-0060).",
    "required": ["type", "condition"],
    "properties": {"type": TEXT, "condition": TEXT, "detail": TEXT, "text": TEXT},
}


def statuses() -> Sequence[int]:
    """Return the statuses of all errors that an operation may return."""
    return sorted({*OWN, *STATUS.values()})


def _problem(status: int) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Problem"}
    return {
        "description": OWN.get(status, "The service refuses the request; `detail` has the reason."),
        "content": {MEDIA_TYPE: {"schema": schema}},
    }


def _problems() -> dict[str, Any]:
    return {str(one): {"$ref": f"#/components/responses/{one}"} for one in statuses()}


def _reading(name: str, summary: str) -> dict[str, Any]:
    done = {"description": "Done.", "content": {JSON: {"schema": {"type": "object"}}}}
    unchanged = {"description": "It is as the client has it (`If-None-Match`)."}
    return {
        "operationId": name,
        "summary": summary,
        "responses": {"200": done, "304": unchanged} | _problems(),
    }


def _operation(one: Operation) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": one.name,
        "summary": one.label,
        "description": one.about,
        "responses": {"200": _done(one)} | _problems(),
    }
    if not one.changes:
        return described | {"parameters": [_in_query(each) for each in one.parameters]}
    schema = _of_parameters(one.parameters)
    content = {kind: {"schema": schema} for kind in (JSON, FORM)}
    needed = any(each.required and not each.usual for each in one.parameters)
    return described | {"requestBody": {"required": needed, "content": content}}


def _in_query(one: Parameter) -> dict[str, Any]:
    schema = _schema(one)
    if one.kind is ParameterKind.FLAG:
        schema |= {"type": "string", "enum": ["0", "1", "true", "false"]}
    return {
        "name": one.name,
        "in": "query",
        "required": one.required and not one.usual,
        "description": one.label,
        "schema": schema,
    }


def _of_parameters(parameters: Iterable[Parameter]) -> dict[str, Any]:
    found = {one.name: _schema(one) | {"description": one.label} for one in parameters}
    needed = [one.name for one in parameters if one.required and not one.usual]
    schema = {"type": "object", "properties": found, "additionalProperties": False}
    return schema | ({"required": needed} if needed else {})


def _schema(one: Parameter) -> dict[str, Any]:
    found = dict(KINDS[one.kind])
    if one.choices:
        found["enum"] = [value for value, _ in one.choices]
    return found


def _done(one: Operation) -> dict[str, Any]:
    row = {
        "type": "object",
        "required": [column.name for column in one.columns],
        "properties": {column.name: _cell(column) for column in one.columns},
        "additionalProperties": False,
    }
    answer = {
        "type": "object",
        "required": ["operation", "note", "warns", "rows", "more"],
        "properties": {
            "operation": {"const": one.name},
            "note": TEXT,
            "warns": {"type": "boolean"},
            "rows": {"type": "array", "items": row},
            "more": {"type": "boolean"},
            "through": TEXT,
            "now": {"type": "string", "format": "date-time"},
            "oldest": {"type": "integer"},
            "newest": {"type": "integer"},
        },
        "additionalProperties": False,
    }
    return {"description": "Done.", "content": {JSON: {"schema": answer}}}


def _publishing() -> dict[str, Any]:
    """Describe how items are published."""
    span = {"type": ["number", "null"], "minimum": 0, "maximum": 10**9}
    item = {
        "payload": {"description": "A JSON value, or a string with an XML element or JSON."},
        "id": {"type": ["string", "null"], "minLength": 1},
        "priority": {"type": "integer", "minimum": -(2**31), "maximum": 2**31 - 1},
        "delay": span | {"description": "Seconds before the first delivery."},
        "ttl": span | {"description": "Seconds that the item may wait before it is dead."},
        "headers": {"type": "object", "additionalProperties": TEXT},
        "group": TEXT,
    }
    items = {"type": "array", "minItems": 1, "maxItems": MAX_ITEMS, "items": _closed(item)}
    result = {
        "id": TEXT,
        "duplicate": {"type": "boolean", "description": "It existed already."},
        "dead": {
            "type": "string",
            "description": "It existed already, and is dead for this reason.",
        },
        "error": {"$ref": "#/components/schemas/Error"},
    }
    results = {"type": "array", "items": _closed(result, "id")}
    done = _closed({"node": TEXT, "results": results}, "node", "results")
    node = {"name": "node", "in": "query", "required": True, "schema": KINDS[ParameterKind.NODE]}
    body = {"schema": _closed({"items": items}, "items")}
    return {
        "operationId": "publish",
        "summary": "Publish items",
        "description": "Each item is judged by itself, with the rights of the user's account. An item with a `duplicate` is on disk; "
        "one with an `error` is not published. The same ids may be sent again.",
        "parameters": [node | {"description": "Node"}],
        "requestBody": {"required": True, "content": {JSON: body}},
        "responses": {"200": {"description": "Done.", "content": {JSON: {"schema": done}}}}
        | _problems(),
    }


def _closed(properties: dict[str, Any], *needed: str) -> dict[str, Any]:
    found = {"type": "object", "properties": properties, "additionalProperties": False}
    return found | ({"required": list(needed)} if needed else {})


def _cell(column: Column) -> dict[str, Any]:
    return CELLS[column.cell] | {"description": column.label}


# The results of operations as JSON: the rows under the names of their columns, and the list of all operations.


def method_of(operation: Operation) -> str:
    """Return the method of requests for the operation."""
    return "POST" if operation.changes else "GET"


def written(
    operation: Operation, answer: Answer, hidden: frozenset[str] = frozenset()
) -> dict[str, Any]:
    """Return a result; the cells of `hidden` columns are null."""
    found: dict[str, Any] = {
        "operation": operation.name,
        "note": answer.note,
        "warns": answer.warns,
        "rows": [_row(operation, row, hidden) for row in answer.rows],
        "more": answer.more,
    }
    if answer.through:
        found["through"] = answer.through
    if answer.now is not None:
        found["now"] = stamp(answer.now)
    if answer.oldest is not None:
        found |= {"oldest": answer.oldest, "newest": answer.newest}
    return found


def _row(operation: Operation, row: Iterable[Any], hidden: frozenset[str]) -> dict[str, Any]:
    return {
        column.name: None if column.name in hidden else json_of(column.cell, value)
        for column, value in zip(operation.columns, row, strict=True)
    }


def listed(operations: Iterable[Operation]) -> dict[str, Any]:
    """Return the list of operations; `href` is relative to the list."""
    return {"operations": [_listed(one) for one in operations]}


def _listed(operation: Operation) -> dict[str, Any]:
    return {
        "name": operation.name,
        "method": method_of(operation),
        "href": f"operations/{operation.name}",
        "label": operation.label,
        "about": operation.about,
        "parameters": [_parameter(one) for one in operation.parameters],
        "columns": [_column(one) for one in operation.columns],
        "single": operation.single,
        "paged": bool(operation.place),
    }


def _parameter(one: Parameter) -> dict[str, Any]:
    words = one.name, one.kind.value, one.label, one.required
    found: dict[str, Any] = dict(zip(("name", "kind", "label", "required"), words, strict=True))
    if one.choices:
        found["choices"] = [{"value": value, "label": label} for value, label in one.choices]
    return found | ({"default": one.usual} if one.usual else {})


def _column(one: Column) -> dict[str, str]:
    return {"name": one.name, "kind": one.cell.value, "label": one.label}


# The parameters of an operation from a request: its query, a form, or a JSON object.

JSON: Final = "application/json"

MAX_PAIRS: Final = 10_000
"""Maximum number of values in one request."""


def from_pairs(pairs: Iterable[tuple[str, str]]) -> Given:
    """Return the parameters of a query or a form. A parameter with several values is repeated.

    Raises:
        UnfitError: a name or a value has a character that is not allowed in names and payloads, or there
            are too many values.

    """
    found: dict[str, list[str]] = {}
    for count, (name, value) in enumerate(pairs):
        if count >= MAX_PAIRS:
            raise UnfitError(f"{_shown(name)}: a request may have up to {MAX_PAIRS} values")
        found.setdefault(_checked(name, name), []).append(_checked(name, value))
    return Given({name: tuple(values) for name, values in found.items()})


def from_json(body: bytes, operation: Operation) -> Given:
    """Return the parameters of a JSON object: strings, numbers, true and false; a list if a parameter has several values.

    A payload may be any JSON value: a value that is not a string is the payload itself.

    Raises:
        UnfitError: the body is not such an object.

    """
    try:
        found = msgspec.json.decode(body) if body.strip() else {}
    except (msgspec.DecodeError, RecursionError) as problem:
        raise UnfitError(f"the body is not JSON: {problem}") from None
    if not isinstance(found, dict):
        raise UnfitError("the body must be a JSON object with the parameters")
    payloads = {one.name for one in operation.parameters if one.kind is ParameterKind.PAYLOAD}
    return from_pairs(_pairs(found, payloads))


def _pairs(found: Mapping[str, object], payloads: set[str]) -> Iterable[tuple[str, str]]:
    for name, value in found.items():
        if value is None:
            continue
        if name in payloads and not isinstance(value, str):
            yield name, msgspec.json.encode(value).decode()
            continue
        for one in value if isinstance(value, list) else [value]:
            yield name, _text(name, one)


def _text(name: str, value: object) -> str:
    """Return a value as the string that a form has for it."""
    match value:
        case str():
            return value
        case bool():
            return "1" if value else "0"
        case int():
            return str(value)
        case float() if math.isfinite(value):
            return repr(value)
        case _:
            raise UnfitError(f"{_shown(name)}: a text, a number, true or false, or a list of these")


def _checked(name: str, value: str) -> str:
    """Return the value, if each store and each protocol can carry it."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise UnfitError(f"{_shown(name)}: this is not valid Unicode") from None
    if "\0" in value:
        raise UnfitError(f"{_shown(name)}: it has a NUL character")
    return value


def _shown(name: str) -> str:
    return name.encode("ascii", "backslashreplace").decode()[:100]
