"""Carried messages: reads the IQ, and the message in it. Nothing looks at the contents of a message before it is to be delivered."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum, unique
from typing import TYPE_CHECKING, Final

from pubqueue.core.qos.model import MAX_ID_LENGTH
from pubqueue.faces.xmpp.refusals import StanzaError, bad_request
from pubqueue.faces.xmpp.stream.reader import StreamParser
from pubqueue.faces.xmpp.xml.stanza import Element, Stanza
from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    from pubqueue.core.model import Jid

HEADER: Final = (
    f"<stream:stream xmlns='{ns.COMPONENT}' xmlns:stream='http://etherx.jabber.org/streams'>"
).encode()

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
    msg_id: str
    message: bytes


def is_carried(child: Element) -> bool:
    """Return whether the child of an IQ is of Quality of Service."""
    return child.tag.partition(" ")[0] == ns.QOS


def read(stanza: Stanza) -> Carried | StanzaError:
    """Read what the IQ carries."""
    child = stanza.top.children[0]
    name = child.tag.partition(" ")[2]
    if stanza.top.get("type") != "set" or name not in list(Step):
        return bad_request(text="an IQ of type set has acknowledged, assured or deliver")
    step = Step(name)
    msg_id = "" if step is Step.ACKNOWLEDGED else child.get("msgId") or ""
    if step is not Step.ACKNOWLEDGED and not 0 < len(msg_id.encode()) <= MAX_ID_LENGTH:
        return bad_request(text=f"msgId has to have 1 to {MAX_ID_LENGTH} bytes")
    if child.text.strip():
        return bad_request(text=f"{step} contains no text")
    if step is Step.DELIVER:
        return (
            bad_request(text="deliver is empty") if child.children else Carried(step, msg_id, b"")
        )
    if [each.tag in MESSAGES for each in child.children] != [True]:
        return bad_request(text=f"{step} contains exactly one message")
    return Carried(step, msg_id, stanza.cut([stanza.top, child, child.children[0]]))


class MessageReader:
    """Reads carried messages as stanzas; one parser serves them all, because making one takes longer than reading a message."""

    def __init__(self, service: str) -> None:
        self._service = service
        self._parser: StreamParser | None = None

    def read(self, message: bytes, sender: Jid) -> Stanza:
        """Return a message as a stanza from its sender to the service, whatever addresses it has itself."""
        parser, self._parser = self._parser or _parser(), None  # after a fault it is not used again
        (stanza,) = parser.feed(message)
        self._parser = parser
        assert isinstance(stanza, Stanza)  # it was cut out of a stanza
        top = stanza.top
        top.attributes = top.attributes | {"from": sender, "to": self._service}
        return stanza


def _parser() -> StreamParser:
    parser = StreamParser()
    parser.feed(HEADER)
    return parser
