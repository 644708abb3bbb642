"""From an item to its MESSAGE: the server's headers first, then those of the publisher.

Of a repeated header the first counts (1.2, "Repeated Header Entries"), so a publisher cannot forge one of the
server's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.faces.stomp.codec import Frame
from pubqueue.faces.stomp.destinations import shown
from pubqueue.faces.stomp.sending import DESTINATION
from pubqueue.model.entities import account_of
from pubqueue_xeps.wire.payloads.content_type import HEADER as CONTENT_TYPE
from pubqueue_xeps.wire.payloads.wrapper import unwrap

if TYPE_CHECKING:
    from pubqueue.model.entities import Headers, ItemId, NodeName
    from pubqueue.model.notices import Announce, Deliver

SERVERS: Final = frozenset(
    {
        *("subscription", "message-id", DESTINATION, "ack", "content-length", CONTENT_TYPE),
        *("item-id", "redelivered", "delivery-attempt", "failed"),
        *("publisher", "published", "deadline", "priority", "group"),
    }
)
"""Headers that a publisher's cannot replace."""


def message_id(node: NodeName, item: ItemId) -> str:
    """Return the header `message-id`: the same for each delivery of the item."""
    return f"{node}/{item}"


def of_delivery(notice: Deliver, subscription: str, ack: str | None) -> Frame:
    """Return the MESSAGE of an item of a queue; `ack` is None if no acknowledgement is needed."""
    item = notice.item
    headers, body = _begun(
        *(subscription, item.node, item.id, item.headers),
        payload=notice.payload,
        ack=ack,
        is_queue=True,
    )
    if item.acquired > 1:
        headers["redelivered"] = "true"
        headers["delivery-attempt"] = f"{item.acquired}"
    if item.failed:
        headers["failed"] = f"{item.failed}"
    headers["publisher"] = account_of(item.publisher)
    headers["published"] = f"{item.published}"
    if item.deadline is not None:
        headers["deadline"] = f"{item.deadline}"
    if item.priority:
        headers["priority"] = f"{item.priority}"
    if item.group:
        headers["group"] = item.group
    if item.headers:
        _add(headers, item.headers)
    return Frame("MESSAGE", headers, body)


def of_news(notice: Announce, subscription: str, ack: str | None, number: int) -> Frame:
    """Return the MESSAGE of a notice of a topic; `number` is its number here, for notices without an item."""
    draft = notice.draft
    if draft is None:
        found = {"subscription": subscription, "message-id": f"{notice.node}/{number}"}
        return Frame("MESSAGE", {**found, DESTINATION: shown(notice.node, is_queue=False)})
    headers, body = _begun(
        *(subscription, notice.node, draft.id, draft.headers),
        payload=draft.payload,
        ack=ack,
        is_queue=False,
    )
    if notice.publisher is not None:
        headers["publisher"] = account_of(notice.publisher)
    if notice.late is not None:
        headers["published"] = f"{notice.late}"
    if draft.headers:
        _add(headers, draft.headers)
    return Frame("MESSAGE", headers, body)


def _begun(
    subscription: str,
    node: NodeName,
    item: ItemId,
    given: Headers,
    *,
    payload: bytes,
    ack: str | None,
    is_queue: bool,
) -> tuple[dict[str, str], bytes]:
    """Return the first headers, and the body."""
    mine = dict(given) if given else {}
    headers = {
        "subscription": subscription,
        "message-id": message_id(node, item),
        DESTINATION: mine.get(DESTINATION) or shown(node, is_queue=is_queue),
    }
    if ack is not None:
        headers["ack"] = ack
    data = b""
    if payload:
        body = unwrap(payload, mine.get(CONTENT_TYPE))
        data = body.data
        if body.type is not None:
            headers[CONTENT_TYPE] = body.type
    headers["item-id"] = item
    return headers, data


def _add(headers: dict[str, str], given: Headers) -> None:
    """Add the publisher's headers, in their order; of a repeated one the first."""
    for name, value in given:
        if name and name not in SERVERS:
            headers.setdefault(name, value)
