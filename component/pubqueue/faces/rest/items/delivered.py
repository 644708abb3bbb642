"""From an item to the headers and the body of an answer: one table, the service's headers first."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from pubqueue.faces.rest.http.problems import ProblemError
from pubqueue.faces.rest.items import values
from pubqueue.faces.rest.items.link_fields import links_in
from pubqueue.faces.rest.items.published import CORRELATION, REPLY_TO
from pubqueue.model.entities import account_of
from pubqueue_xeps.wire.payloads.content_type import HEADER as CONTENT_TYPE
from pubqueue_xeps.wire.payloads.wrapper import unwrap

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pubqueue.model.entities import Item

UNTYPED: Final = "application/octet-stream"
"""The content type of a body whose publisher gave none."""

OWN_RELATIONS: Final = frozenset(
    {"acknowledgement", "acknowledge-next", "consume-next", "consumer", "generator", "next", "self"}
)
"""Relations of links that the service adds to a message. Links of publishers with one of these are not passed on."""

# fmt: off
NAMES: Final[Mapping[str, str]] = MappingProxyType({
    CORRELATION:           "Correlation-Id",
    "traceparent":         "traceparent",
    "tracestate":          "tracestate",
    "baggage":             "baggage",
    "content-language":    "Content-Language",
    "content-encoding":    "Content-Encoding",
    "content-disposition": "Content-Disposition",
    "content-location":    "Message-Content-Location",
})
# fmt: on
"""Headers of items that are headers of HTTP too, by their names in lower case; others are `Message-Header-*`."""


def body_of(item: Item, payload: bytes) -> tuple[str, bytes]:
    """Return content type and body."""
    if not payload:
        return UNTYPED, b""
    header = next((value for name, value in item.headers if name.lower() == CONTENT_TYPE), None)
    body = unwrap(payload, header)
    kind = body.type if body.type is not None and _is_carried(body.type) else UNTYPED
    return kind, body.data


def headers_of(item: Item, reply_url: Callable[[str], str]) -> list[tuple[str, str]]:
    """Return the headers of a message, without content type, links and lock; `reply_url` returns the URL to post to a node."""
    found = [
        ("Message-Id", values.encoded(item.id)),
        ("Message-Publisher", values.encoded(account_of(item.publisher))),
        ("Message-Published", values.moment(item.published)),
    ]
    if item.priority:
        found.append(("Message-Priority", f"{item.priority}"))
    if item.group:
        found.append(("Message-Group", values.encoded(item.group)))
    if item.expires is not None:
        found.append(("Message-Expires", values.moment(item.expires)))
    if item.acquired:
        found.append(("Message-Attempt", f"{item.acquired}"))
    if item.failed:
        found.append(("Message-Failed", f"{item.failed}"))
    return found + [row for given in item.headers for row in _row(*given, reply_url)]


def _row(name: str, value: str, reply_url: Callable[[str], str]) -> list[tuple[str, str]]:
    """Return the header of HTTP for a header of the item, if there is one."""
    small = name.lower()
    if small == CONTENT_TYPE:
        return []
    if small == REPLY_TO:
        return [("Link", f'<{reply_url(value)}>; rel="reply-to"')]
    if small == "link":
        return [("Link", text) for text in _links(value)]
    if small in NAMES:
        return [(NAMES[small], value)] if _is_carried(value) else []
    if values.TOKEN.fullmatch(name):
        return [(f"Message-Header-{name}", values.encoded(value))]
    return []


def _links(value: str) -> list[str]:
    """Return the links of a publisher that can be beside ours: a worker must not take one for the lock of the message."""
    try:
        found = list(links_in([value]))
    except ProblemError:
        return []  # of another protocol, where it is a text as any other
    return [link.text for link in found if OWN_RELATIONS.isdisjoint(link.rels)]


def _is_carried(value: str) -> bool:
    """Return whether a header of HTTP can have this value unchanged."""
    return value.isprintable() and value == value.strip()
