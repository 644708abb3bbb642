"""Makes a reader from options; checks everything here, once and on the driver."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from pubqueue_spark import content_types, logs
from pubqueue_spark.client import check
from pubqueue_spark.client.ask import ask
from pubqueue_spark.errors import OptionError, SchemaError
from pubqueue_spark.read import options, tables
from pubqueue_spark.read.reader import PubqueueReader, PubqueueStreamReader
from pubqueue_xeps.wire.refusals import Refusal
from pubqueue_xeps.wire.requests import pages, transactions
from pubqueue_xeps.wire.requests.pages import EVENTS, READS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.types import StructType

    from pubqueue_spark.read.options import ReadSettings, ReadTable

log = logging.getLogger(__name__)

FEATURES: Final[dict[ReadTable, str]] = {
    "items": READS,
    "deadletters": READS,
    "nodes": READS,
    "events": EVENTS,
    "transactions": transactions.FEATURE,
}


def batch(given: Mapping[str, str], schema: StructType) -> PubqueueReader:
    """Return the batch reader of a table; raise the first error that is found."""
    return PubqueueReader(_checked(options.settings(given, stream=False), schema))


def stream(given: Mapping[str, str], schema: StructType) -> PubqueueStreamReader:
    """Return the streaming reader of a table; raise the first error that is found."""
    return PubqueueStreamReader(_checked(options.settings(given, stream=True), schema))


def _checked(settings: ReadSettings, schema: StructType) -> ReadSettings:
    logs.make_audible()
    if settings.data:
        content_types.reader()
    columns = tables.schema(settings.table, data=settings.data, service=settings.has_service)
    if schema.simpleString() != columns.simpleString():
        raise SchemaError(
            f"the columns of table={settings.table} are given: leave schema(...) out, and select what you"
            " want of them."
        )
    wanted = FEATURES[settings.table]
    for one in settings.of_each():
        if wanted not in check.features(one):
            raise OptionError(
                f"option table: {one.service} does not show its {one.table} (feature {wanted})."
            )
        if one.table == "events":
            _warn_of_no_log(one)
    return settings


def _warn_of_no_log(settings: ReadSettings) -> None:
    """Log a warning for each requested node that keeps no event log."""
    nodes = [name for name in settings.nodes if not options.patterned(name)]
    if not nodes:
        return
    answers = ask(settings, *(pages.request(settings.service, name) for name in nodes))
    for name, answer in zip(nodes, answers, strict=True):
        if not isinstance(answer, Refusal) and EVENTS not in pages.features(answer):
            log.warning(
                "node %r at %s keeps no log, so table=events has nothing new of it; its owner turns one"
                " on with x-queueing#event_log in the node configuration.",
                name,
                settings.service,
            )
