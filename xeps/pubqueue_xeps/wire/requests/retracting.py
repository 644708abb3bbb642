"""Cancelling a published item: a retract (XEP-0060 7.2) by its publisher, or by an owner of the node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue_xeps.wire.ns import PUBQUEUE, PUBSUB
from pubqueue_xeps.wire.requests import publishing
from pubqueue_xeps.wire.requests.iq import IqRequest
from pubqueue_xeps.wire.xml_escape import legal, quote

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

RETRACTED: Final = f".//{{{PUBQUEUE}}}retracted"
LOCKED: Final = f"{{{PUBQUEUE}}}locked"


def request(node: str, item: str) -> IqRequest:
    """Ask to delete an item, and to report whether a worker had it; raise ValueError for an invalid id."""
    if publishing.identified(item) is None:
        raise ValueError("id is None; a retract needs the id of an item")
    inner = f"<retract node={quote(legal(node))}{publishing.KNOWN}><item id={quote(legal(item))}/></retract>"
    return IqRequest(
        "set", f"the retract of {item!r}", f"<pubsub xmlns='{PUBSUB}'>{inner}</pubsub>"
    )


def locked(answer: Element) -> bool | None:
    """Return whether the item was locked to a worker; None if the service does not report it."""
    retracted = answer.find(RETRACTED)
    return None if retracted is None else retracted.find(LOCKED) is not None
