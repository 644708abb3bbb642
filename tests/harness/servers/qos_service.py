"""A scripted queue service that also offers urn:xmpp:qos: it publishes the contents of a message, by the table of the note.

`queue` has the items in the order of their publishes, by the words that they came in; a script may replace any of its
answers: `acknowledged`, `assured`, `deliver`.
"""

from __future__ import annotations

import hashlib
import itertools
from typing import TYPE_CHECKING

from harness.servers.queue_service import PUBSUB, QUERY, QueueService, answer, refuse
from lxml import etree

if TYPE_CHECKING:
    from harness.servers.queue_service import Answer
    from lxml.etree import _Element

QOS = "urn:xmpp:qos"
FEATURES = QUERY.replace("</query>", f"<feature var='{QOS}'/></query>")


class QosService(QueueService):
    """The component with the node `jobs`, whose items are counted and go nowhere."""

    def __init__(self, port: int, secret: str, *, domain: str = "queue.localhost") -> None:
        super().__init__(port, secret, domain=domain)
        self.queue: list[str] = []
        self.held: dict[tuple[str, str], _Element] = {}
        self.ended: dict[tuple[str, str], tuple[str, bytes]] = {}
        self.script |= {
            "query": lambda iq: [answer(iq, FEATURES)],
            "acknowledged": self.acknowledged,
            "assured": self.assured,
            "deliver": self.deliver_held,
        }

    def acknowledged(self, iq: _Element) -> list[str]:
        return [answer(iq, ""), *self.publish(iq[0][0])]

    def assured(self, iq: _Element) -> list[str]:
        key = iq.get("from"), iq[0].get("msgId")
        if self.ended.get(key) != (iq.get("id"), digest(iq)):
            held = self.held.setdefault(key, iq)
            if digest(held) != digest(iq):
                return [refuse(iq, "conflict")]
        return [answer(iq, f"<received xmlns='{QOS}' msgId='{key[1]}'/>")]

    def deliver_held(self, iq: _Element) -> list[str]:
        key = iq.get("from"), iq[0].get("msgId")
        if key in self.held:
            held = self.held.pop(key)
            self.ended[key] = held.get("id"), digest(held)
            self.publish(held[0][0])
        elif key not in self.ended:
            error = "<unknown-message xmlns='urn:x-pubqueue:0'/></error>"
            return [refuse(iq, "item-not-found").replace("</error>", error)]
        return [answer(iq, "")]

    def publish(self, message: _Element) -> list[str]:
        item = message.find(f"{{{PUBSUB}}}pubsub/{{{PUBSUB}}}publish/{{{PUBSUB}}}item")
        if item.get("id") not in self.queue:  # the same id again is the same item
            self.queue.append(item.get("id"))
        return []


def silent_at_first(times: int, answers: Answer) -> Answer:
    """Ignore the first requests, and answer all others."""
    seen = itertools.count(1)

    def answered(iq: _Element) -> list[str]:
        return [] if next(seen) <= times else answers(iq)

    return answered


def digest(iq: _Element) -> bytes:
    """Return the common part of two carried messages of the same bytes."""
    return hashlib.sha256(etree.tostring(iq[0][0], method="c14n")).digest()
