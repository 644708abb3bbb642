"""The parameters of an operation from a request: its query, a form, or a JSON object."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import msgspec

from pubqueue.operations.model import Given, ParameterKind, UnfitError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pubqueue.operations.model import Operation

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
