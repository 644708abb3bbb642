"""A row becomes the text of a publish (XEP-0060 7.1), without a stanza object on the way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal
from xml.sax.saxutils import escape, quoteattr

from pubqueue_spark import beside
from pubqueue_spark.payload import MOST, legal
from pubqueue_xeps import ns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pubqueue_spark.forms import Form
    from pubqueue_spark.schema import Columns

HEAD: Final = 256
"""Bytes left for the <iq> around a publish: type, id and the service's JID."""
LETTER: Final = 12_000
"""Bytes of raw text in a dead letter: written with entities it still fits the 64 KiB of a new node."""


class Unfit(ValueError):  # noqa: N818  says what the row is
    """A row cannot become an item; the message is the reason, without a word of the payload."""


@dataclass(frozen=True, slots=True)
class Publish:
    """One item, ready to be sent."""

    kind: Literal["set"]
    body: bytes
    row: int
    partition: int
    node: str
    item_id: str
    generated: bool
    """Whether the id was made here, and so is no other row's."""
    size: int
    """Bytes of the payload."""
    raw: object
    """What the column payload held; None for a dead letter."""

    def __str__(self) -> str:
        what = "the dead letter of row" if self.raw is None else "row"
        return (
            f"{what} {self.row} of partition {self.partition}"
            f" (item {self.item_id!r}, node {self.node!r})"
        )


@dataclass(frozen=True, slots=True)
class Rows:
    """Turns the rows of one partition into publishes.

    A row without `item_id` gets `<batch>-<partition>-<row>`: for uniqueness, and for the eye.
    """

    columns: Columns
    form: Form
    node: str | None
    ids: str
    partition: int
    mark: str = ""
    """What stands beside each publish: the transaction that it belongs to."""

    def publish(self, number: int, row: Sequence[object]) -> Publish:
        """Return the publish of a row; raises Unfit."""
        try:
            return self._publish(number, row)
        except ValueError as error:
            raise Unfit(str(error)) from None

    def letter(self, number: int, raw: object, node: str, reason: str) -> Publish:
        """Return a dead letter: what a row held, as far as there is room for it, and what was wrong."""
        text = self.form.raw(raw)
        words = {"partition": self.partition, "row": number, "reason": reason, "size": len(text)}
        attributes = "".join(f" {name}={_quote(str(it))}" for name, it in words.items())
        kept = escape(text.encode()[:LETTER].decode(errors="ignore"), {"\r": "&#13;"})
        element = f"<bad-row xmlns='{ns.PUBQUEUE}'{attributes}>{kept}</bad-row>".encode()
        return self._made(number, node, None, element)

    def _publish(self, number: int, row: Sequence[object]) -> Publish:
        at = self.columns
        node = _name("node", _get(row, at.node)) or self.node
        if node is None:
            raise ValueError("node is null, and there is no option node to use instead")
        item_id = _name("item_id", _get(row, at.item_id))
        raw = row[at.payload]
        if raw is None:
            raise ValueError("payload is null; leave such rows out")
        extras = beside.meta(
            _get(row, at.priority),
            _get(row, at.delay),
            _get(row, at.not_before),
            _get(row, at.ttl),
        ) + beside.headers(_get(row, at.headers))
        return self._made(number, node, item_id, self.form.element(raw), extras=extras, raw=raw)

    def _made(
        self,
        number: int,
        node: str,
        item_id: str | None,
        element: bytes,
        *,
        extras: str = "",
        raw: object = None,
    ) -> Publish:
        name = item_id or f"{self.ids}-{self.partition}-{number}"
        body = b"".join(
            (
                f"<pubsub xmlns='{ns.PUBSUB}'><publish node={_quote(node)}>"
                f"<item id={_quote(name)}>".encode(),
                element,
                f"</item></publish>{extras}{self.mark}</pubsub></iq>".encode(),
            )
        )
        if len(body) + HEAD > MOST:
            raise ValueError(
                f"it makes a stanza of {len(body)} bytes, and XMPP servers refuse more than {MOST};"
                " put the bulk elsewhere and its address into the payload"
            )
        return Publish(
            "set", body, number, self.partition, node, name, item_id is None, len(element), raw
        )


def _get(row: Sequence[object], place: int | None) -> object:
    return None if place is None else row[place]


def _name(column: str, found: object) -> str | None:
    """Check a node name or an item id."""
    if found is None:
        return None
    if not found:
        raise ValueError(f"{column} is empty; null means: not given")
    try:
        return legal(str(found))
    except ValueError as error:
        raise ValueError(f"{column} {error}") from None


def _quote(value: str) -> str:
    return quoteattr(value, beside.SPACES)
