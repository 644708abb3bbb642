"""From the headers and the body of a request, or of a part of a batch, to the item that is published: one table."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pubqueue.faces.rest.http.problems import bad_request
from pubqueue.faces.rest.items import values
from pubqueue.faces.rest.items.link_fields import links_in
from pubqueue.model.entities import NO_TIME, Draft, ItemId, Millis
from pubqueue_xeps.wire.payloads.content_type import HEADER as CONTENT_TYPE
from pubqueue_xeps.wire.payloads.wrapper import wrap
from pubqueue_xeps.wire.xml_escape import ILLEGAL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

OWN_PREFIX: Final = "message-header-"
"""Headers `Message-Header-Foo` are headers `Foo` of the item."""

REPLY_TO: Final = "reply-to"
"""The header with the node that replies go to, as in the client library."""

CORRELATION: Final = "correlation-id"


class Wishes(Struct, gc=False):
    """The properties of the item in the headers."""

    id: str = ""
    priority: int = 0
    delay: Millis = NO_TIME
    ttl: Millis | None = None
    group: str = ""
    type: str | None = None
    kept: list[tuple[str, str]] = []
    links: list[str] = []


def _id(wishes: Wishes, name: str, value: str) -> None:
    wishes.id = values.decoded(value, name)
    if not wishes.id:
        raise bad_request("Message-Id is empty")


def _priority(wishes: Wishes, name: str, value: str) -> None:
    wishes.priority = values.whole(value, name)


def _delay(wishes: Wishes, name: str, value: str) -> None:
    wishes.delay = values.span(value, name)


def _ttl(wishes: Wishes, name: str, value: str) -> None:
    wishes.ttl = values.span(value, name)


def _group(wishes: Wishes, name: str, value: str) -> None:
    wishes.group = values.decoded(value, name)


def _type(wishes: Wishes, name: str, value: str) -> None:
    wishes.type = values.plain(value, name)


def _links(wishes: Wishes, name: str, value: str) -> None:
    wishes.links.append(values.plain(value, name))


def _kept(wishes: Wishes, name: str, value: str) -> None:
    wishes.kept.append((name, values.plain(value, name)))


def _kept_small(wishes: Wishes, name: str, value: str) -> None:
    wishes.kept.append((name.lower(), values.plain(value, name)))


# fmt: off
ROWS: Final[Mapping[str, Callable[[Wishes, str, str], None]]] = MappingProxyType({
    "message-id":          _id,
    "message-priority":    _priority,
    "message-delay":       _delay,
    "message-ttl":         _ttl,
    "message-max-ttl":     _ttl,
    "message-group":       _group,
    "content-type":        _type,
    "link":                _links,
    CORRELATION:           _kept_small,
    "traceparent":         _kept_small,
    "tracestate":          _kept_small,
    "baggage":             _kept_small,
    "content-language":    _kept,
    "content-encoding":    _kept,
    "content-disposition": _kept,
    "content-location":    _kept,
})
# fmt: on
"""Headers that belong to the item, by their names in lower case; all others belong to the request."""


def wishes_of(headers: Iterable[tuple[str, str]]) -> Wishes:
    """Return the properties of an item in these headers.

    Raises:
        ProblemError: one cannot be read.

    """
    wishes = Wishes()
    for name, value in headers:
        small = name.lower()
        if (read := ROWS.get(small)) is not None:
            read(wishes, str(name), value)
        elif small.startswith(OWN_PREFIX):
            wishes.kept.append((name[len(OWN_PREFIX) :], values.decoded(value, name)))
    return wishes


def draft_of(
    wishes: Wishes, body: bytes, new_id: Callable[[], str], node_of: Callable[[str], str | None]
) -> Draft:
    """Return the item; without `Message-Id` under a new id. `node_of` returns which of our nodes is posted to at a URL, or None.

    Raises:
        ProblemError: a link or a header cannot be read.

    """
    kept = [(str(name), value) for name, value in wishes.kept]
    for link in links_in(wishes.links):
        node = node_of(link.target) if REPLY_TO in link.rels else None
        kept.append(("Link", link.text) if node is None else (REPLY_TO, node))
    try:
        wrapped = wrap(body, wishes.type)
    except ValueError as problem:
        raise bad_request(f"{problem}") from None
    if wrapped.header is not None:
        kept.append((CONTENT_TYPE, wrapped.header))
    for name, value in kept:
        if not name or ILLEGAL.search(name) or ILLEGAL.search(value):
            raise bad_request("a header has a character that XML does not have")
    return Draft(
        *(ItemId(wishes.id or new_id()), wrapped.xml, wishes.priority, wishes.delay, wishes.ttl),
        headers=tuple(kept),
        type=wrapped.space,
        group=wishes.group,
    )
