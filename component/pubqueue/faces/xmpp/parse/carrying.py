"""What an IQ of Quality of Service carries (urn:xmpp:qos). The contents of a message are not judged before it is to be delivered."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum, unique
from typing import TYPE_CHECKING, Final

from pubqueue.faces.xmpp.refusals import StanzaError, bad_request
from pubqueue.model.records import MAX_ID_LENGTH
from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    from pubqueue.faces.xmpp.xml.stanza import Element, Stanza

MESSAGES: Final = frozenset(
    f"{namespace} message" for namespace in (ns.CLIENT, ns.COMPONENT, "jabber:server", ns.QOS)
)
"""The element of a carried message; a sender that declares no namespace has that of the IQ or of the element around it."""


@unique
class Step(StrEnum):
    """What an IQ asks."""

    ACKNOWLEDGED = "acknowledged"
    ASSURED = "assured"
    DELIVER = "deliver"


@dataclass(frozen=True, slots=True)
class Carried:
    """A step of a message; `message` has its bytes, except for a delivery."""

    step: Step
    iq_id: str
    msg_id: str
    message: bytes = b""

    @property
    def byte_count(self) -> int:
        """The bytes of memory that it takes."""
        return len(self.message)


def is_carried(child: Element) -> bool:
    """Return whether the child of an IQ is of Quality of Service."""
    return child.tag.partition(" ")[0] == ns.QOS


def read(stanza: Stanza) -> Carried | StanzaError:
    """Read what the IQ carries."""
    child = stanza.top.children[0]
    name = child.tag.partition(" ")[2]
    if stanza.top.get("type") != "set" or name not in list(Step):
        return bad_request(text="an IQ of type set has acknowledged, assured or deliver")
    step, iq_id = Step(name), stanza.top.get("id") or ""
    msg_id = "" if step is Step.ACKNOWLEDGED else child.get("msgId") or ""
    if step is not Step.ACKNOWLEDGED and not 0 < len(msg_id.encode()) <= MAX_ID_LENGTH:
        return bad_request(text=f"msgId has to have 1 to {MAX_ID_LENGTH} bytes")
    if child.text.strip():
        return bad_request(text=f"{step} contains no text")
    if step is Step.DELIVER:
        return (
            bad_request(text="deliver is empty") if child.children else Carried(step, iq_id, msg_id)
        )
    if [each.tag in MESSAGES for each in child.children] != [True]:
        return bad_request(text=f"{step} contains exactly one message")
    return Carried(step, iq_id, msg_id, stanza.cut([stanza.top, child, child.children[0]]))
