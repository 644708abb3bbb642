"""The columns that a DataFrame must have to be written as items.

Columns have fixed names, as in Spark's Kafka sink: `df.select(col("x").alias("payload"))`. Case does
not matter, as in Spark SQL.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql.types import (
    ByteType,
    DayTimeIntervalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    TimestampType,
)

from pubqueue_spark import content_types
from pubqueue_spark.errors import SchemaError
from pubqueue_spark.write import forms
from pubqueue_xeps.wire.payloads.content_type import other_charset

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

    from pubqueue_spark.write.options import Settings

Types = tuple[type["DataType"], ...]

WHOLE: Final[Types] = (ByteType, ShortType, IntegerType, LongType)
SECONDS: Final[Types] = (DoubleType, FloatType, DayTimeIntervalType, *WHOLE)
TEXT: Final[Types] = (StringType,)

# fmt: off
#  column        types               what to cast to
COLUMNS: Final[dict[str, tuple[Types, str]]] = {
    "payload":    ((),               ""),  # judged by its format
    "item_id":    (TEXT,             "string"),  # null: generated
    "node":       (TEXT,             "string"),  # null: the option `node`
    "priority":   (WHOLE,            "int"),
    "delay":      (SECONDS,          "double"),  # seconds until the first delivery
    "not_before": ((TimestampType,), "timestamp"),
    "ttl":        (SECONDS,          "double"),  # seconds after which the item expires
    "headers":    ((MapType,),       "map<string,string>"),
    "content_type": (TEXT,           "string"),  # null: the option `contentType`
}
# fmt: on


@dataclass(frozen=True, slots=True)
class Columns:
    """The position of each column in a row; None if the DataFrame does not have it."""

    payload: int
    payload_type: DataType
    item_id: int | None = None
    node: int | None = None
    priority: int | None = None
    delay: int | None = None
    not_before: int | None = None
    ttl: int | None = None
    headers: int | None = None
    content_type: int | None = None


def columns(schema: StructType, settings: Settings) -> Columns:
    """Find the columns of an item; raise SchemaError with one sentence if they do not fit.

    Without the option `node` the DataFrame must have a column of that name.
    """
    places: dict[str, int] = {}
    for place, found in enumerate(schema.fields):
        name = found.name.lower()
        if name not in COLUMNS:
            if not settings.ignore_extra_columns:
                raise SchemaError(_unknown(found.name))
            continue
        if name in places:
            raise SchemaError(f"column {name} occurs twice; drop or rename one of them.")
        _check_type(name, found.dataType)
        places[name] = place
    if "payload" not in places:
        raise SchemaError("column payload is missing: the work itself, such as one XML element.")
    if "node" not in places and settings.node is None:
        raise SchemaError("no queue is named: set the option node, or add a string column node.")
    payload_type = schema.fields[places["payload"]].dataType
    forms.form(
        payload_type, settings.payload_format
    )  # refuses a format that does not fit the column
    if settings.content_type is not None or "content_type" in places:
        _check_typed(payload_type, settings.content_type)
    return Columns(payload_type=payload_type, **places)


def _check_type(name: str, found: DataType) -> None:
    wanted, cast_to = COLUMNS[name]
    fits = not wanted or isinstance(found, wanted)
    if isinstance(found, MapType):
        fits = isinstance(found.keyType, TEXT) and isinstance(found.valueType, TEXT)
        fits = fits if name == "headers" else not wanted
    if not fits:
        raise SchemaError(f"column {name} is of type {found.simpleString()}; cast it to {cast_to}.")


def _check_typed(payload_type: DataType, content_type: str | None) -> None:
    """Check that payloads of this column can have a content type, and that this Python can send them."""
    if not isinstance(payload_type, forms.PLAIN):
        raise SchemaError(
            f"column payload is of type {payload_type.typeName()}, and a content type goes with string or"
            " binary; use to_json(...), or leave the content type out."
        )
    charset = None if content_type is None else other_charset(content_type)
    if charset is not None and isinstance(payload_type, StringType):
        raise SchemaError(
            f"column payload is a string, which is sent in UTF-8, and option contentType names {charset};"
            " use encode(...), which makes it binary."
        )
    content_types.writer()


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name.lower(), COLUMNS, n=1, cutoff=0.6)
    hint = f"did you mean {near[0]}?" if near else f"the columns are {', '.join(COLUMNS)}."
    return f"column {name!r} is unknown (extraColumns=ignore leaves it out); {hint}"
