"""The OpenAPI 3.1 description of the operations, generated from their table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pubqueue.faces.http.problems import MEDIA_TYPE, STATUS
from pubqueue.monitor.api.parameters import JSON
from pubqueue.monitor.bodies import FORM
from pubqueue.operations.model import Cell, ParameterKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pubqueue.operations.model import Column, Operation, Parameter

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
            "schemas": {"Problem": PROBLEM},
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
    },
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


def _cell(column: Column) -> dict[str, Any]:
    return CELLS[column.cell] | {"description": column.label}
