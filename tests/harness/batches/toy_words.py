"""The words of the toy face: a line protocol of five requests, and the texts of notices, refusals and payloads.

`PUT node id text` and `SEND node id type base64` publish, `TAKE node window` subscribes, `NEXT node count seconds` asks for items
once, and `DONE node id` retracts.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Final, assert_never
from urllib.parse import quote, unquote
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

from pubqueue.model.decision import Refusal
from pubqueue.model.entities import Draft, ItemId, NodeName, seconds
from pubqueue.model.notices import (
    Announce,
    Configured,
    Deleted,
    Deliver,
    Purged,
    Retracted,
    Unlocked,
)
from pubqueue.rules.publication import Publish
from pubqueue.rules.settle import Settle, Verb
from pubqueue.rules.subscribe import Options, Subscribe
from pubqueue.rules.take import Take
from pubqueue_xeps.wire.names import is_clean
from pubqueue_xeps.wire.payloads.content_type import HEADER
from pubqueue_xeps.wire.payloads.wrapper import unwrap, wrap

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pubqueue.model.decision import Refused
    from pubqueue.model.entities import Headers, Principal
    from pubqueue.model.notices import Notice

TEXT: Final = "{urn:example:line}text"
MAX_LENGTH: Final = 1023
"""Bytes of a name that all faces can carry."""


def fits(parts: Sequence[str]) -> bool:
    """Return whether every face can carry this: names of a bounded length, and no control characters in XML."""
    return all(map(is_clean, parts)) and all(
        0 < len(part.encode()) <= MAX_LENGTH for part in parts[:2]
    )


def _put(by: Principal, _number: int, node: str, item: str, text: str) -> Publish:
    payload = f'<text xmlns="urn:example:line">{escape(text)}</text>'.encode()
    return Publish(by, NodeName(node), (Draft(ItemId(item), payload, type="urn:example:line"),))


def _take(by: Principal, number: int, node: str, window: str) -> Subscribe:
    subid = f"{by.jid}-{number}"  # unique in the store, whichever instance makes it
    return Subscribe(by, NodeName(node), by.jid, subid, Options(window))


def _next(by: Principal, _number: int, node: str, count: str, wait: str) -> Take:
    return Take(by, NodeName(node), int(count), seconds(float(wait)))


def done(by: Principal, _number: int, node: str, item: str) -> Settle:
    return Settle(by, NodeName(node), (ItemId(item),), Verb.RETRACT)


def _send(by: Principal, _number: int, node: str, item: str, rest: str) -> Publish:
    """Read a content type, `-` for none, and a body in base64; the module that all faces share makes the stored form."""
    kind, _, body = rest.partition(" ")
    wrapped = wrap(b64decode(body, validate=True), None if kind == "-" else unquote(kind))
    headers = () if wrapped.header is None else ((HEADER, wrapped.header),)
    draft = Draft(ItemId(item), wrapped.xml, headers=headers, type=wrapped.space)
    return Publish(by, NodeName(node), (draft,))


READERS: Final[dict[str, tuple[int, Callable[..., Publish | Subscribe | Take | Settle]]]] = {
    "PUT": (3, _put),
    "SEND": (3, _send),
    "TAKE": (2, _take),
    "NEXT": (3, _next),
    "DONE": (2, done),
}
"""For each verb, how many words follow it, and the function that makes a request of them."""


def words_of(notice: Notice) -> str:
    match notice:
        case Deliver():
            return f"ITEM {notice.item.node} {notice.item.id} {shown(notice.payload, notice.item.headers)}"
        case Announce(draft=None):
            return f"NEWS {notice.node}"
        case Announce(draft=draft):
            return f"NEWS {notice.node} {draft.id} {shown(draft.payload, draft.headers)}"
        case Configured():
            return f"OTHER {notice.node}"
        case Retracted():
            return f"GONE {notice.node} {' '.join(notice.ids)}"
        case Unlocked():
            return f"LOST {notice.node} {' '.join(notice.ids)}"
        case Purged():
            return f"EMPTY {notice.node}"
        case Deleted():
            return f"CLOSED {notice.node}"
        case _:
            assert_never(notice)


def shown(payload: bytes, headers: Headers) -> str:
    """Return the text of a `PUT`, type and body of a wrapper, and any other payload as its XML."""
    header = dict(headers).get(HEADER)
    body = unwrap(payload, header)
    if body.form != "xml" or header is not None:
        kind = "-" if body.type is None else quote(body.type, safe="/;=+")
        return f"{kind} {b64encode(body.data).decode()}"
    root = ET.fromstring(payload)
    return (root.text or "") if root.tag == TEXT else payload.decode()


REFUSALS: Final[dict[Refusal, str]] = {
    **{one: one.name for one in Refusal},
    Refusal.STORE_FAILED: "LATER",
    Refusal.TOO_MANY_WAITING: "LATER",
    Refusal.INTERNAL_FAULT: "FAULT",
}
"""The words for each refusal."""


def refusal(refused: Refused) -> str:
    """Return the line for a refusal, with the bound if there is one."""
    bound = "" if refused.limit is None else f" {refused.limit}"
    return f"NO {REFUSALS[refused.refusal]}{bound}"
