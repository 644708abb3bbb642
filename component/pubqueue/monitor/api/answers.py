"""The results of operations as JSON: the rows under the names of their columns, and the list of all operations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pubqueue.operations.model import json_of, stamp

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pubqueue.operations.model import Answer, Column, Operation, Parameter


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
    if answer.more:
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
