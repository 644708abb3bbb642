"""The columns of a write: what a DataFrame must look like to become work items.

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

from pubqueue_spark.errors import SchemaError
from pubqueue_spark.write import forms

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
    "ttl":        (SECONDS,          "double"),  # seconds after which it is not worth doing any more
    "headers":    ((MapType,),       "map<string,string>"),
}
# fmt: on


@dataclass(frozen=True, slots=True)
class Columns:
    """Where in a row each column stands; None: the DataFrame has it not."""

    payload: int
    payload_type: DataType
    item_id: int | None = None
    node: int | None = None
    priority: int | None = None
    delay: int | None = None
    not_before: int | None = None
    ttl: int | None = None
    headers: int | None = None


def columns(schema: StructType, settings: Settings) -> Columns:
    """Find the columns of a work item; raises SchemaError with one sentence when they do not fit.

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
            raise SchemaError(f"column {name} is there twice; drop or rename one of the two.")
        _check_type(name, found.dataType)
        places[name] = place
    if "payload" not in places:
        raise SchemaError("column payload is missing: the work itself, such as one XML element.")
    if "node" not in places and settings.node is None:
        raise SchemaError("no queue is named: set the option node, or add a string column node.")
    payload_type = schema.fields[places["payload"]].dataType
    forms.form(payload_type, settings.payload_format)  # refuses what does not go together
    return Columns(payload_type=payload_type, **places)


def _check_type(name: str, found: DataType) -> None:
    wanted, cast_to = COLUMNS[name]
    fits = not wanted or isinstance(found, wanted)
    if isinstance(found, MapType):
        fits = isinstance(found.keyType, TEXT) and isinstance(found.valueType, TEXT)
        fits = fits if name == "headers" else not wanted
    if not fits:
        raise SchemaError(f"column {name} is of type {found.simpleString()}; cast it to {cast_to}.")


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name.lower(), COLUMNS, n=1, cutoff=0.6)
    hint = f"did you mean {near[0]}?" if near else f"the columns are {', '.join(COLUMNS)}."
    return f"column {name!r} means nothing here (extraColumns=ignore leaves it out); {hint}"
