"""Writes a value of a DataFrame as JSON, like Spark's own to_json, with timestamps in UTC.

Fields of a struct that are null are left out; null within a map or an array stays null. Binary is
base64, dates and timestamps are ISO 8601, decimals keep all their digits.
"""

from __future__ import annotations

import base64
import json
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Final, cast

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    FractionalType,
    IntegralType,
    MapType,
    NullType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from pubqueue_spark.errors import SchemaError
from pubqueue_xeps.wire.names import ILLEGAL

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from decimal import Decimal

    from pyspark.sql.types import DataType

    Writer = Callable[[object], str]


def writer(kind: DataType) -> Writer:
    """Return a writer for values of a type; raise SchemaError for a type that has no form in JSON."""
    if isinstance(kind, StructType):
        return _struct(kind)
    if isinstance(kind, MapType):
        return _map(kind)
    if isinstance(kind, ArrayType):
        return _array(kind)
    for types, write in LEAVES:
        if isinstance(kind, types):
            return write
    raise SchemaError(
        f"column payload holds a value of type {kind.simpleString()}, which has no form in JSON;"
        " cast it to string."
    )


def _struct(kind: StructType) -> Writer:
    if len(set(kind.names)) < len(kind.names):
        raise SchemaError(
            "column payload holds two fields of one name, which JSON cannot tell apart; rename one of them."
        )
    fields = [(_string(field.name), writer(field.dataType)) for field in kind.fields]

    def write(value: object) -> str:
        values = cast("Sequence[object]", value)
        pairs = (
            f"{name}:{of(found)}"
            for (name, of), found in zip(fields, values, strict=True)
            if found is not None
        )
        return f"{{{','.join(pairs)}}}"

    return write


def _map(kind: MapType) -> Writer:
    of, plain = _nullable(writer(kind.valueType)), isinstance(kind.keyType, StringType)
    key = writer(kind.keyType)

    def write(value: object) -> str:
        entries = cast("Mapping[object, object]", value).items()
        pairs = (f"{key(name) if plain else _string(key(name))}:{of(it)}" for name, it in entries)
        return f"{{{','.join(pairs)}}}"

    return write


def _array(kind: ArrayType) -> Writer:
    of = _nullable(writer(kind.elementType))
    return lambda value: f"[{','.join(of(it) for it in cast('Iterable[object]', value))}]"


def _nullable(write: Writer) -> Writer:
    return lambda value: "null" if value is None else write(value)


def _string(value: object) -> str:
    text = json.dumps(str(value), ensure_ascii=False)
    # JSON can escape characters that XML cannot carry
    return ILLEGAL.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    if "\ud800" <= found[0] <= "\udfff":
        raise ValueError("the payload has half a surrogate pair, which is not a character")
    return f"\\u{ord(found[0]):04x}"


def _binary(value: object) -> str:
    return f'"{base64.b64encode(bytes(cast("bytes", value))).decode()}"'


def _boolean(value: object) -> str:
    return "true" if value else "false"


def _null(_: object) -> str:
    return "null"


def _number(value: object) -> str:
    return json.dumps(value, allow_nan=False)


def _decimal(value: object) -> str:
    return format(cast("Decimal", value), "f")


def _date(value: object) -> str:
    return f'"{cast("date", value).isoformat()}"'


def _timestamp(value: object) -> str:
    # Spark passes timestamps in the time zone of the worker process, without naming it.
    moment = cast("datetime", value).astimezone(UTC)
    return f'"{moment.replace(tzinfo=None).isoformat()}Z"'


# fmt: off
LEAVES: Final[tuple[tuple[type[DataType], Writer], ...]] = (
    (StringType,       _string),
    (BinaryType,       _binary),
    (BooleanType,      _boolean),
    (IntegralType,     _number),
    (DecimalType,      _decimal),   # a FractionalType too: it comes before the others
    (FractionalType,   _number),
    (DateType,         _date),
    (TimestampType,    _timestamp),
    (TimestampNTZType, _date),      # a datetime without a time zone, as it is
    (NullType,         _null),
)
# fmt: on
