"""From options to a reader: everything is checked here, once and on the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue_spark import logs
from pubqueue_spark.client import check
from pubqueue_spark.errors import OptionError, SchemaError
from pubqueue_spark.read import options, tables
from pubqueue_spark.read.reader import PubqueueReader, PubqueueStreamReader
from pubqueue_xeps import transactions
from pubqueue_xeps.pages import EVENTS, READS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.types import StructType

    from pubqueue_spark.read.options import ReadSettings, Table

FEATURES: Final[dict[Table, str]] = {
    "items": READS,
    "deadletters": READS,
    "nodes": READS,
    "events": EVENTS,
    "transactions": transactions.FEATURE,
}


def batch(given: Mapping[str, str], schema: StructType) -> PubqueueReader:
    """Return the reader of a table as it is; raises the first thing that is wrong."""
    return PubqueueReader(_checked(options.settings(given, stream=False), schema))


def stream(given: Mapping[str, str], schema: StructType) -> PubqueueStreamReader:
    """Return the reader of a query; raises the first thing that is wrong."""
    return PubqueueStreamReader(_checked(options.settings(given, stream=True), schema))


def _checked(settings: ReadSettings, schema: StructType) -> ReadSettings:
    logs.make_audible()
    columns = tables.SCHEMAS[settings.table]
    if schema.simpleString() != columns.simpleString():
        raise SchemaError(
            f"the columns of table={settings.table} are given: leave schema(...) out, and select what you"
            " want of them."
        )
    wanted = FEATURES[settings.table]
    if wanted not in check.features(settings):
        raise OptionError(
            f"option table: {settings.service} does not show its {settings.table} (feature {wanted})."
        )
    return settings
