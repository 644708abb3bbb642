"""Writes deliveries as requests, and interprets the answers (urn:xmpp:qos 2.2, 2.3).

The ids of requests contain the lock. So a repeated request is the same bytes, and an answer identifies its delivery.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from pubqueue.faces.xmpp import bounces
from pubqueue.faces.xmpp.render.notices import carried
from pubqueue.faces.xmpp.xml.text import attribute
from pubqueue.model.entities import Level
from pubqueue.rules.deliveries import DeliveryAnswer
from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    from pubqueue.faces.xmpp.xml.stanza import Element
    from pubqueue.model.entities import Jid
    from pubqueue.model.notices import Deliver

_NAME: Final = re.compile(r"pq-(\d{1,18})-(\d{1,18})(-deliver)?")
_ASKED: Final = re.compile(r"pq-qos-[0-9a-f-]{1,64}")

RECEIVED: Final = frozenset(
    ns.tag(space, "received") for space in (ns.QOS, ns.CLIENT, ns.COMPONENT)
)
"""The answer to `assured`: in the draft's namespace or, as in its examples, in that of the stream."""

UNABLE: Final = frozenset({"not-allowed", "feature-not-implemented"})
"""Conditions by which a client refuses the level."""

UNKNOWN_MESSAGE: Final = ns.tag(ns.PUBQUEUE, "unknown-message")

QUERY: Final = ns.tag(ns.DISCO_INFO, "query")
FEATURE: Final = ns.tag(ns.DISCO_INFO, "feature")


def name_of(seq: int, token: int) -> str:
    """Return the id of the request and its message, which is also the msgId."""
    return f"pq-{seq}-{token}"


def lock_of(iq: Element) -> tuple[int, int, bool] | None:
    """Return number and token of an answered delivery, and whether the answer is to its `deliver`."""
    found = _NAME.fullmatch(iq.get("id") or "")
    return None if found is None else (int(found[1]), int(found[2]), found[3] is not None)


def request(what: Deliver, service: str) -> bytes:
    """Return the first request of a delivery."""
    name = name_of(what.item.seq, what.item.token)
    verb, words = "acknowledged", ""
    if what.level is Level.ASSURED:
        verb, words = "assured", f' msgId="{name}"'
    before = f'{_start(service, what.to, name)}<{verb} xmlns="{ns.QOS}"{words}>'.encode()
    return before + carried(what, service, name) + f"</{verb}></iq>".encode()


def deliver(to: Jid, seq: int, token: int, service: str) -> bytes:
    """Return the request that lets the client use the received bytes."""
    name = name_of(seq, token)
    start = _start(service, to, f"{name}-deliver")
    return f'{start}<deliver xmlns="{ns.QOS}" msgId="{name}"/></iq>'.encode()


def _start(service: str, to: Jid, name: str) -> str:
    return f'<iq type="set" id="{name}" from="{attribute(service)}" to="{attribute(to)}">'


def answer_in(iq: Element) -> DeliveryAnswer:
    """Return the meaning of an answer."""
    if iq.get("type") == "result":
        return DeliveryAnswer.RECEIVED if _is_received(iq) else DeliveryAnswer.RESULT
    error = bounces.error_of(iq)
    if bounces.condition_of(iq) in UNABLE:
        return DeliveryAnswer.UNABLE
    if error is not None and error.find(UNKNOWN_MESSAGE) is not None:
        return DeliveryAnswer.FAILED  # the client is online and has lost the bytes
    return DeliveryAnswer.GONE if bounces.is_gone(error) else DeliveryAnswer.FAILED


def _is_received(iq: Element) -> bool:
    name = (iq.get("id") or "").removesuffix("-deliver")
    found = next((child for child in iq.children if child.tag in RECEIVED), None)
    return found is not None and found.get("msgId") in {None, name}


def question(to: Jid, name: str, service: str) -> bytes:
    """Return the disco#info request to a client (XEP-0030)."""
    return (
        f'<iq type="get" id="pq-qos-{name}" from="{attribute(service)}" to="{attribute(to)}">'
        f'<query xmlns="{ns.DISCO_INFO}"/></iq>'
    ).encode()


def is_to_question(iq: Element) -> bool:
    """Return whether a stanza answers such a request by any instance."""
    return _ASKED.fullmatch(iq.get("id") or "") is not None


def is_able(iq: Element) -> bool | None:
    """Return whether the answer lists the extension; a client without service discovery does not have it. None: it is not known."""
    if iq.get("type") == "error":
        error = bounces.error_of(iq)
        return None if error is None or error.get("type") == "wait" else False
    if (query := iq.find(QUERY)) is None:
        return None
    return any(one.tag == FEATURE and one.get("var") == ns.QOS for one in query.children)
