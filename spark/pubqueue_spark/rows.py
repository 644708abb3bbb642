"""A row becomes the text of a publish (XEP-0060 7.1), without a stanza object on the way."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from xml.sax.saxutils import quoteattr

from pubqueue_spark.errors import RowError
from pubqueue_spark.payload import MOST, legal, payload
from pubqueue_xeps import ns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pubqueue_spark.schema import Columns

HEAD: Final = 256
"""Bytes left for the <iq> around a publish: type, id and the service's JID."""
LONGEST: Final = 100 * 365 * 86400
"""Seconds; more than a service's clock can count is a mistake in a unit."""


@dataclass(frozen=True, slots=True)
class Publish:
    """One row, ready to be sent: everything that stands inside the <iq>."""

    row: int
    node: str
    item_id: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Rows:
    """Turns the rows of one partition into publishes.

    A row without `item_id` gets `<job>-<partition>-<row>`: a task that is tried again makes the same
    ids as before, as long as it sees the same rows in the same order.
    """

    columns: Columns
    node: str | None
    job_id: str
    partition: int

    def publish(self, number: int, row: Sequence[object]) -> Publish:
        """Return the publish of a row; raises RowError, which names the row and what is wrong with it."""
        try:
            return self._publish(number, row)
        except ValueError as error:
            raise RowError(
                f"row {number} of partition {self.partition} cannot become an item: {error}."
            ) from None

    def _publish(self, number: int, row: Sequence[object]) -> Publish:
        at = self.columns
        node = _name("node", _get(row, at.node), self.node)
        generated = f"{self.job_id}-{self.partition}-{number}"
        item_id = _name("item_id", _get(row, at.item_id), generated)
        text = row[at.payload]
        if text is None:
            raise ValueError("payload is null; leave such rows out, or give them one XML element")
        meta = _meta(_get(row, at.priority), _get(row, at.delay), _get(row, at.ttl))
        body = b"".join(
            (
                f"<pubsub xmlns='{ns.PUBSUB}'><publish node={_quote(node)}>"
                f"<item id={_quote(item_id)}>".encode(),
                payload(str(text)),
                f"</item></publish>{meta}</pubsub></iq>".encode(),
            )
        )
        if len(body) + HEAD > MOST:
            raise ValueError(
                f"it makes a stanza of {len(body)} bytes, and XMPP servers refuse more than {MOST};"
                " put the bulk elsewhere and its address into the payload"
            )
        return Publish(number, node, item_id, body)


def _get(row: Sequence[object], place: int | None) -> object:
    return None if place is None else row[place]


def _name(column: str, found: object, otherwise: str | None) -> str:
    """Return a node name or an item id: the row's, else the other one."""
    name = otherwise if found is None else str(found)
    if name is None:
        raise ValueError(f"{column} is null, and there is no option {column} to use instead")
    if not name:
        raise ValueError(f"{column} is empty; null means: not given")
    try:
        return legal(name)
    except ValueError as error:
        raise ValueError(f"{column} {error}") from None


def _quote(value: str) -> str:
    # A parser reads a line end or tab in an attribute as a space, unless it is written so.
    return quoteattr(value, {"\n": "&#10;", "\r": "&#13;", "\t": "&#9;"})


def _meta(priority: object, delay: object, ttl: object) -> str:
    """Write what travels beside <publish/>; the numbers' types were checked with the schema."""
    given = {
        "delay": _seconds("delay", delay),
        "priority": None if priority is None else str(priority),
        "ttl": _seconds("ttl", ttl),
    }
    attributes = "".join(f" {name}='{value}'" for name, value in given.items() if value is not None)
    return f"<meta xmlns='{ns.PUBQUEUE}'{attributes}/>" if attributes else ""


def _seconds(column: str, value: object) -> str | None:
    if value is None:
        return None
    assert isinstance(value, int | float)
    if not math.isfinite(value) or not 0 <= value <= LONGEST:
        raise ValueError(f"{column} is {value}; it takes seconds, 0 or more")
    return f"{value:.3f}".rstrip("0").rstrip(".")
