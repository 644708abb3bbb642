"""The tables that Spark can read: their columns, and how a page's entries become rows."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.types import (
    BinaryType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from pubqueue_xeps.wire.xml_text import xml_text

if TYPE_CHECKING:
    from pubqueue_spark.read.options import ReadTable
    from pubqueue_xeps.wire.requests.pages import Event, ReadItem, ReadNode, Record

Row = tuple[Any, ...]

# fmt: off
TYPES: Final[dict[str, DataType]] = {
    "string":    StringType(),
    "binary":    BinaryType(),
    "int":       IntegerType(),
    "long":      LongType(),
    "double":    DoubleType(),
    "timestamp": TimestampType(),
    "map":       MapType(StringType(), StringType()),
}
# fmt: on


def _columns(*lines: str) -> StructType:
    """Make columns from text such as `seq long`; a task has no Spark to parse it."""
    pairs = (pair.split() for pair in ", ".join(lines).split(", "))
    return StructType([StructField(name, TYPES[kind]) for name, kind in pairs])


ITEM: Final = (
    "node string, item_id string, seq long, state string, priority int, payload string, headers map",
    "publisher string, published_at timestamp, not_before timestamp, acquired int, failed int",
    "locked_by string, locked_until timestamp, txn_app string, txn_version long",
)

SCHEMAS: Final[dict[ReadTable, StructType]] = {
    "items": _columns(*ITEM),
    "deadletters": _columns(
        *ITEM, "dead_at timestamp, reason string, last_worker string, origin string, death long"
    ),
    "events": _columns(
        "seq long, at timestamp, event string, node string, item_id string, attempt int, worker string",
        "publisher string, age_ms long, held_ms long, detail string, moved_from string, moved_to string",
    ),
    "transactions": _columns(
        "app string, version long, committed_at timestamp, rows long, bytes long, skipped long",
        "dead_lettered long, publisher string, seconds double",
    ),
    "nodes": _columns(
        "node string, queued long, locked long, delayed long, dead long, subscribers long",
        "window_free long, oldest_age_ms long, config map",
    ),
}


DATA: Final = _columns("data binary, type string, json string")
"""The last columns of a table with payloads, if `includeData` is on."""


SERVICE: Final = _columns("service string")
"""The last column of a table of several services."""


def schema(table: ReadTable, *, data: bool = False, service: bool = False) -> StructType:
    """Return the columns of a table."""
    columns = list(SCHEMAS[table])
    columns += DATA if data and "payload" in SCHEMAS[table].names else []
    return StructType([*columns, *(SERVICE if service else [])])


def event(it: Event) -> Row:
    """Return a row of `events`."""
    whose = it.worker, it.publisher
    moved = it.origin, it.to
    ages = it.age_ms, it.held_ms
    return (it.seq, it.at, it.type, it.node, it.item, it.attempt, *whose, *ages, it.detail, *moved)


def item(it: ReadItem) -> Row:
    """Return a row of `items`."""
    payload = None if it.payload is None else xml_text(it.payload)
    what = it.node, it.id, it.seq, it.state, it.priority, payload, it.headers
    when = it.publisher, it.published, it.not_before, it.acquired, it.failed
    return (*what, *when, it.holder, it.deadline, it.txn_app, it.txn_version)


def dead_letter(it: ReadItem) -> Row:
    """Return a row of `deadletters`."""
    dead_letter = it.dead_letter
    assert dead_letter is not None, "those in the state dead have died"
    return (
        *item(it),
        dead_letter.at,
        dead_letter.reason,
        dead_letter.last_holder,
        dead_letter.origin,
        dead_letter.seq,
    )


def record(it: Record) -> Row:
    """Return a row of `transactions`."""
    counts = it.rows, it.bytes, it.skipped, it.dead_lettered
    return (it.app, it.version, it.committed, *counts, it.publisher, it.seconds)


def node(it: ReadNode) -> Row:
    """Return a row of `nodes`. The age is by this machine's clock, and never below 0."""
    counts = it.queued, it.locked, it.delayed, it.dead, it.subscribers, it.window_free
    return (it.name, *counts, _age(it.oldest), it.config)


def _age(since: datetime | None) -> int | None:
    if since is None:
        return None
    return max(0, round((datetime.now(UTC) - since).total_seconds() * 1000))
