"""Writes rows as items, and items as publishes, in text (XEP-0060 7.1)."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, cast

from pubqueue_spark.write import metadata
from pubqueue_spark.write.payload import MAX_STANZA_BYTES, check_length
from pubqueue_xeps.wire.names import CHANGED, checked
from pubqueue_xeps.wire.ns import PUBQUEUE
from pubqueue_xeps.wire.requests import publishing
from pubqueue_xeps.wire.xml_text import attributes, content

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pubqueue_spark.content_types import Headers, TypedWriter
    from pubqueue_spark.write.forms import Form
    from pubqueue_spark.write.schema import Columns

HEAD: Final = 256
"""Bytes for the <iq> around a publish: type, id and the service's JID."""
LETTER: Final = 12_000
"""Bytes of raw text in a dead letter; even fully escaped it fits the 64 KiB of a new node."""


class Unfit(ValueError):  # noqa: N818  names what the row is
    """A row cannot become an item; the message is the reason, without the payload."""


@dataclass(slots=True)
class Item:
    """The item of a row."""

    row: int
    partition: int
    node: str
    id: str
    generated: bool
    """Whether the id was generated here, and is thus unique."""
    xml: bytes
    """The element <item/>."""
    beside: str
    """The elements that go with its publish."""
    size: int
    """Bytes of the payload."""
    raw: object
    """The value of the column payload; None for a dead letter."""
    key: bytes
    """What it is placed by among several services: its id, or the content of its row if the id was generated, which another run may
    generate otherwise."""

    def __str__(self) -> str:
        what = "the dead letter of row" if self.raw is None else "row"
        return f"{what} {self.row} of partition {self.partition} (item {self.id!r}, node {self.node!r})"


@dataclass(slots=True)
class Publish:
    """Items of one node with the same metadata, ready to be sent; see Request."""

    items: Sequence[Item]
    body: bytes
    kind: Literal["set"] = field(default="set", init=False)

    @property
    def rows(self) -> int:
        """See Request."""
        return len(self.items)

    def __str__(self) -> str:
        first, last = self.items[0], self.items[-1]
        if first is last:
            return str(first)
        return (
            f"rows {first.row} to {last.row} of partition {first.partition} (node {first.node!r})"
        )


@dataclass(frozen=True, slots=True)
class Rows:
    """Turns the rows of one partition into items, and these into publishes.

    A row without `item_id` gets the unique and readable id `<batch>-<partition>-<row>`.
    """

    columns: Columns
    form: Form
    node: str | None
    ids: str
    partition: int
    mark: str = ""
    """The element of the transaction, which goes with each publish."""
    content_type: str | None = None
    """The content type of payloads whose row has none."""
    typed: TypedWriter | None = None
    """The writer of payloads with a content type; None if no row has one."""

    def item(self, number: int, row: Sequence[object]) -> Item:
        """Return the item of a row; raises Unfit."""
        try:
            return self._item(number, row)
        except ValueError as error:
            raise Unfit(str(error)) from None

    def letter(self, number: int, raw: object, node: str, reason: str) -> Item:
        """Return a dead letter: the content of a row, cut to fit, and the reason."""
        whole = self.form.raw(raw)
        kept, encoding = _letter(whole)
        words = attributes(
            partition=self.partition,
            row=number,
            reason=CHANGED.sub("\ufffd", " ".join(reason.split())),
            size=len(whole),
            encoding=encoding,
        )
        element = f"<bad-row xmlns='{PUBQUEUE}'{words}>{kept}</bad-row>".encode()
        key = whole if isinstance(whole, bytes) else whole.encode("utf-8", "surrogatepass")
        return self._made(number, node, None, element, key=key)

    def publish(self, items: Sequence[Item]) -> Publish:
        """Return the request to publish these items."""
        first = items[0]
        extras = first.beside + self.mark
        return Publish(
            items, publishing.publish(first.node, (it.xml for it in items), extras) + b"</iq>"
        )

    def _item(self, number: int, row: Sequence[object]) -> Item:
        at = self.columns
        node = _name("node", _get(row, at.node)) or self.node
        if node is None:
            raise ValueError("node is null, and there is no option node to use instead")
        item_id = _name("item_id", _get(row, at.item_id))
        raw = row[at.payload]
        if raw is None:
            raise ValueError("payload is null; leave such rows out")
        headers = _get(row, at.headers)
        if self.typed is None:
            element = self.form.element(raw)
        else:
            element, headers = self._typed(self.typed, row, headers)
        extras = metadata.meta(
            _get(row, at.priority),
            _get(row, at.delay),
            _get(row, at.not_before),
            _get(row, at.ttl),
        ) + metadata.headers(headers)
        return self._made(number, node, item_id, element, extras=extras, raw=raw)

    def _typed(
        self, write: TypedWriter, row: Sequence[object], headers: object
    ) -> tuple[bytes, object]:
        """Return the element and the headers of a row of a job in which payloads may have content types."""
        raw = row[self.columns.payload]
        found = _get(row, self.columns.content_type)
        if found == "":
            raise ValueError("content_type is empty; null means: not given")
        content_type = self.content_type if found is None else str(found)
        if content_type is None:
            return self.form.element(raw), headers
        assert isinstance(raw, str | bytes | bytearray)
        check_length(raw)
        return write(raw, content_type, cast("Headers", headers))

    def _made(
        self,
        number: int,
        node: str,
        item_id: str | None,
        element: bytes,
        *,
        extras: str = "",
        raw: object = None,
        key: bytes | None = None,
    ) -> Item:
        name = item_id or f"{self.ids}-{self.partition}-{number}"
        written = publishing.item(name, element)
        made = Item(
            *(number, self.partition, node, name, item_id is None),
            *(written, extras, len(element), raw),
            key=item_id.encode() if item_id else element if key is None else key,
        )
        if (
            len(written) + len(extras) > MAX_STANZA_BYTES // 2
        ):  # else it fits, however long the names are
            self._check_size(made)
        return made

    def _check_size(self, item: Item) -> None:
        size = len(self.publish([item]).body)
        if size + HEAD > MAX_STANZA_BYTES:
            raw = item.raw
            own = f" (its payload has {len(raw)})" if isinstance(raw, bytes | bytearray) else ""
            raise ValueError(
                f"it makes a stanza of {size} bytes{own}, and XMPP servers refuse more than {MAX_STANZA_BYTES};"
                " store large data elsewhere and put its address into the payload"
            )


def _letter(whole: str | bytes) -> tuple[str, str | None]:
    """Return the beginning of the content of a row as it is written, and its encoding: base64 if a server would change the text."""
    if isinstance(whole, str) and CHANGED.search(whole) is None:
        return content(whole.encode()[:LETTER].decode(errors="ignore")), None
    data = whole if isinstance(whole, bytes) else whole.encode("utf-8", "surrogatepass")
    return b64encode(data[:LETTER]).decode(), "base64"


def _get(row: Sequence[object], place: int | None) -> object:
    return None if place is None else row[place]


def _name(column: str, found: object) -> str | None:
    """Check a node name or an item id."""
    if found is None:
        return None
    if not found:
        raise ValueError(f"{column} is empty; null means: not given")
    return checked(str(found), column)
