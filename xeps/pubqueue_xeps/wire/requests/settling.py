"""Retract, unlock and touch as text (XEP-0254 sections 2.3 and 2.4), for the plugin and for workers.

A service that supports `urn:x-pubqueue:0` also gets the token of the lock, and the outcome of an unlock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue_xeps.wire.ns import PUBQUEUE, PUBSUB, QUEUEING
from pubqueue_xeps.wire.requests import publishing
from pubqueue_xeps.wire.requests.iq import IqRequest
from pubqueue_xeps.wire.times import read_time
from pubqueue_xeps.wire.xml_escape import attributes, legal, quote

if TYPE_CHECKING:
    from datetime import datetime
    from xml.etree.ElementTree import Element

    from pubqueue_xeps.wire.refusals import Outcome


TOUCHED: Final = f"{{{PUBQUEUE}}}touch/{{{PUBQUEUE}}}item"


class ItemRequests:
    """The requests about single items of one node, each the child of an IQ of type set.

    Never of type get, as in examples 6 and 10: a get must not change anything (RFC 6120 8.2.3).
    """

    def __init__(self, node: str) -> None:
        named = f"node={quote(node)}"
        self._retract = f"<pubsub xmlns='{PUBSUB}'><retract {named}><item id="
        self._unlock = f"<pubsub xmlns='{PUBSUB}'><unlock xmlns='{QUEUEING}' {named}><item id="
        self._touch = f"<touch xmlns='{PUBQUEUE}' {named}"

    def retract(self, item: str, lock: str = "") -> str:
        """Delete an item that is done."""
        return f"{self._retract}{quote(item)}/></retract>{lock}</pubsub>"

    def unlock(self, item: str, beside: str = "") -> str:
        """Release an item."""
        return f"{self._unlock}{quote(item)}/></unlock>{beside}</pubsub>"

    def touch(self, item: str, seconds: float | None = None) -> str:
        """Extend the lock on an item."""
        span = "" if seconds is None else f" seconds='{seconds:.3f}'"
        return f"{self._touch}{span}><item id={quote(item)}/></touch>"


def lock(token: int | None) -> str:
    """Return the element of a retract or unlock that names its lock."""
    return "" if token is None else f"<lock xmlns='{PUBQUEUE}' token='{token}'/>"


def fault(outcome: Outcome | None) -> str:
    """Return the element of an unlock that has the outcome."""
    if outcome is None:
        return ""
    return f"<outcome xmlns='{PUBQUEUE}'{attributes(**outcome.attributes())}/>"


def deadline(answer: Element) -> datetime:
    """Return the new deadline in an answer to a touch; raise ValueError if there is none."""
    touched = answer.find(TOUCHED)
    return read_time("" if touched is None else touched.get("deadline", ""))


# Cancelling a published item: a retract (XEP-0060 7.2) by its publisher, or by an owner of the node.

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
