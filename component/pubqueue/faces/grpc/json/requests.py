"""From the body of a request to the message of an rpc, as proto JSON has it. Pure.

Errors name the field, and nothing of what is in it.
"""

from __future__ import annotations

import json
import re
import string
from typing import TYPE_CHECKING, Any, Final, NoReturn

from google.protobuf import json_format

from pubqueue.faces.grpc.pubsub.settling import MAX_ACK_IDS
from pubqueue.faces.grpc.pubsub.topics import MAX_MESSAGES
from pubqueue.faces.grpc.wire.payloads import MAX_ATTRIBUTES
from pubqueue.faces.grpc.wire.statuses import CallError, invalid

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from google.protobuf.message import Message

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
    return found


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
    """Return the message of this kind; fields that it does not have are ignored.

    Raises:
        CallError: a field does not have a value of its type, or a list is too long.

    """
    _check(given, kind.DESCRIPTOR.fields, ())
    try:
        return json_format.ParseDict(given, kind(), ignore_unknown_fields=True)
    except json_format.ParseError as problem:
        raise _wrong(_FIELD.findall(str(problem))) from None


def _check(given: Fields, fields: Iterable[Any], path: Sequence[str]) -> None:
    """Refuse what the conversion would not: lists that are too long, text where an object belongs, and bytes that are no base64."""
    for field in fields:
        value = given.get(field.json_name, given.get(field.name))
        if value is None:
            continue
        here = (*path, field.json_name)
        values = value if isinstance(value, list) and field.is_repeated else [value]
        most = MAX_VALUES.get(field.name)
        if most is not None and len(values) > most:
            raise invalid(f"{'.'.join(here)} has more than {most} values.")
        if field.message_type is not None:
            for one in values:
                if not isinstance(one, dict):
                    raise _wrong(here)
                _check(one, field.message_type.fields, here)
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
