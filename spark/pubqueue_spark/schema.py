"""The columns of a write: what a DataFrame must look like to become work items.

Columns have fixed names, as in Spark's Kafka sink: `df.select(col("x").alias("payload"))`. Case does
not matter, as in Spark SQL.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final

from pyspark.sql.types import (
    ByteType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
)

from pubqueue_spark.errors import SchemaError

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

WHOLE: Final[tuple[type[DataType], ...]] = (ByteType, ShortType, IntegerType, LongType)
SECONDS: Final[tuple[type[DataType], ...]] = (DoubleType, FloatType, *WHOLE)
TEXT: Final[tuple[type[DataType], ...]] = (StringType,)

# fmt: off
#  column      types    what to cast to
COLUMNS: Final = {
    "payload":  (TEXT,    "string"),  # one XML element
    "item_id":  (TEXT,    "string"),  # null: generated
    "node":     (TEXT,    "string"),  # null: the option `node`
    "priority": (WHOLE,   "int"),
    "delay":    (SECONDS, "double"),  # seconds until the first delivery
    "ttl":      (SECONDS, "double"),  # seconds until nobody should do it any more
}
# fmt: on


@dataclass(frozen=True, slots=True)
class Columns:
    """Where in a row each column stands; None: the DataFrame has it not."""

    payload: int
    item_id: int | None = None
    node: int | None = None
    priority: int | None = None
    delay: int | None = None
    ttl: int | None = None


assert [field.name for field in fields(Columns)] == list(COLUMNS)


def columns(schema: StructType, *, node: str | None, ignore_extra: bool) -> Columns:
    """Find the columns of a work item; raises SchemaError with one sentence when they do not fit.

    `node` is the option of that name: without it the DataFrame must have a column `node`.
    """
    places: dict[str, int] = {}
    for place, found in enumerate(schema.fields):
        name = found.name.lower()
        if name not in COLUMNS:
            if not ignore_extra:
                raise SchemaError(_unknown(found.name))
            continue
        if name in places:
            raise SchemaError(f"column {name} is there twice; drop or rename one of the two.")
        _check_type(name, found.dataType)
        places[name] = place
    if "payload" not in places:
        raise SchemaError("column payload is missing: a string column with one XML element a row.")
    if "node" not in places and node is None:
        raise SchemaError("no queue is named: set the option node, or add a string column node.")
    return Columns(**places)


def _check_type(name: str, found: DataType) -> None:
    wanted, cast_to = COLUMNS[name]
    if not isinstance(found, wanted):
        raise SchemaError(f"column {name} is of type {found.simpleString()}; cast it to {cast_to}.")


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name.lower(), COLUMNS, n=1, cutoff=0.6)
    hint = f"did you mean {near[0]}?" if near else f"the columns are {', '.join(COLUMNS)}."
    return f"column {name!r} means nothing here (extraColumns=ignore leaves it out); {hint}"
