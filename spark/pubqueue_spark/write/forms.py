"""Turns a value of the column `payload` into the element of an item, by type and `payloadFormat`.

| column            | auto                         | xml         | json             | text       |
| string, binary    | one that begins with <: xml  | one element | XEP-0335's <json/> | our <text/> |
| struct, map, array | json                        | refused     | XEP-0335's <json/> | refused    |
"""

from __future__ import annotations

import json
from base64 import b64encode
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NoReturn

from pyspark.sql.types import ArrayType, BinaryType, MapType, StringType, StructType

from pubqueue_spark.errors import SchemaError
from pubqueue_spark.write import json_text
from pubqueue_spark.write.payload import check_length, check_text, payload
from pubqueue_xeps.wire import ns
from pubqueue_xeps.wire.xml_text import content

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.types import DataType

    from pubqueue_spark.write.options import PayloadFormat

NESTED: Final = (StructType, MapType, ArrayType)
PLAIN: Final = (StringType, BinaryType)


@dataclass(frozen=True, slots=True)
class Form:
    """How the values of a column are written."""

    element: Callable[[object], bytes]
    """Returns the element; raises ValueError with the reason if a value cannot become one."""
    raw: Callable[[object], str | bytes]
    """Returns a value as text, or as bytes that are no text, whatever it is."""


def form(kind: DataType, wanted: PayloadFormat) -> Form:
    """Return how a column is written; raise SchemaError if the format does not fit its type."""
    if isinstance(kind, PLAIN):
        write = FORMATS[wanted]
        return Form(lambda value: write(_text(value)), _raw)
    if not isinstance(kind, NESTED):
        raise SchemaError(
            f"column payload is of type {kind.simpleString()}; cast it to string, or wrap it in a struct."
        )
    if wanted in {"xml", "text"}:
        raise SchemaError(
            f"column payload is of type {kind.typeName()}, and payloadFormat={wanted} takes a string;"
            " make one with to_xml(...), or use payloadFormat=json."
        )
    to_json = json_text.writer(kind)
    return Form(lambda value: _json_element(to_json(value)), _raw)


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    assert isinstance(value, bytes | bytearray)
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"the payload is not text in UTF-8 (byte {error.start})") from None


def _auto(text: str) -> bytes:
    if text.strip() and not text.lstrip().startswith("<"):
        raise ValueError(
            "the payload does not begin with '<', so it is not an XML element; use payloadFormat=json"
            " or payloadFormat=text"
        )
    return payload(text)


def _json(text: str) -> bytes:
    try:
        json.loads(text, parse_constant=_no_json)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the payload is not JSON: {error}") from None
    return _json_element(text)


def _no_json(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a number in JSON")


def _json_element(text: str) -> bytes:
    return _container("json", ns.JSON, text)  # XEP-0335


def _plain(text: str) -> bytes:
    if "\r" in text:  # which servers turn into a line feed
        check_length(text)
        kind = "type='text/plain; charset=utf-8' encoding='base64'"
        return (
            f"<data xmlns='{ns.PAYLOAD}' {kind}>{b64encode(text.encode()).decode()}</data>".encode()
        )
    return _container("text", ns.PUBQUEUE, text)


def _container(name: str, namespace: str, text: str) -> bytes:
    check_text(text)
    return f"<{name} xmlns='{namespace}'>{content(text)}</{name}>".encode()


def _raw(value: object) -> str | bytes:
    if value is None:
        return ""
    if not isinstance(value, bytes | bytearray):
        return str(value)
    try:
        return value.decode()
    except UnicodeDecodeError:
        return bytes(value)


# fmt: off
FORMATS: Final[dict[PayloadFormat, Callable[[str], bytes]]] = {
    "auto": _auto,
    "xml":  payload,
    "json": _json,
    "text": _plain,
}
# fmt: on
