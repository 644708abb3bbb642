"""Writes and reads messages that are carried in IQs (urn:xmpp:qos, sections 2.2 and 2.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, cast, get_args
from xml.etree.ElementTree import Element

from pubqueue_xeps.wire.names import checked
from pubqueue_xeps.wire.ns import CLIENT, COMPONENT, QOS
from pubqueue_xeps.wire.requests import IqRequest
from pubqueue_xeps.wire.xml_text import attributes, kept_element, xml_text

Verb = Literal["acknowledged", "assured", "deliver"]

SERVER: Final = "jabber:server"
EMBEDDED: Final = (CLIENT, COMPONENT, SERVER, QOS)
"""The namespaces of an embedded message; the last is for senders that omit it."""

MAX_ID_BYTES: Final = 1023
"""Bytes."""

UNKNOWN_MESSAGE: Final = "unknown-message"
"""Distinguishes an unknown message from any other `item-not-found`."""

MESSAGE: Final = f"{{{CLIENT}}}message"


@dataclass(frozen=True, slots=True)
class Carried:
    """The request of one IQ. A `deliver` has no message, `acknowledged` an empty `msg_id`."""

    verb: Verb
    msg_id: str
    message: Element | None


def acknowledged(message: str) -> IqRequest:
    """Send a message at level acknowledged; `message` is what `embedded` returns."""
    return IqRequest("set", "the message", f"<acknowledged xmlns='{QOS}'>{message}</acknowledged>")


def assured(message: str, msg_id: str) -> IqRequest:
    """Send a message that the receiver stores until `deliver`."""
    start = f"<assured xmlns='{QOS}'{attributes(msgId=msg_id)}>"
    return IqRequest("set", f"the message {msg_id!r}", f"{start}{message}</assured>")


def deliver(msg_id: str) -> IqRequest:
    """Ask for the delivery of a stored message."""
    inner = f"<deliver xmlns='{QOS}'{attributes(msgId=msg_id)}/>"
    return IqRequest("set", f"the delivery of {msg_id!r}", inner)


def received(msg_id: str) -> str:
    """Return the answer to `assured`."""
    return f"<received xmlns='{QOS}'{attributes(msgId=msg_id)}/>"


def is_received(answer: Element, msg_id: str) -> bool:
    """Return whether a result confirms that a message is stored, in either namespace, with its id or without one."""
    found = next((child for child in answer if child.tag in RECEIVED), None)
    return found is not None and found.get("msgId", msg_id) == msg_id


RECEIVED: Final = frozenset(f"{{{space}}}received" for space in (QOS, CLIENT, COMPONENT))


def embedded(message: Element) -> str:
    """Return a message in the form that is embedded, without addresses. Raises ValueError if it is not a message, or not XML."""
    if message.tag != MESSAGE:
        raise ValueError(f"{message.tag} is not a message; {MESSAGE} is.")
    bare = Element(message.tag, {k: v for k, v in message.items() if k not in ("from", "to")})
    bare.text = message.text
    bare.extend(message)
    return kept_element(xml_text(bare, QOS), "The message")


def identified(msg_id: str) -> str:
    """Return the id of a message; raise ValueError if it is empty, too long, or not valid in XML."""
    if not 0 < len(msg_id.encode("utf-8", "replace")) <= MAX_ID_BYTES:
        raise ValueError(f"msg_id is {msg_id!r}; it takes a text of 1 to {MAX_ID_BYTES} bytes.")
    return checked(msg_id, "msg_id")


def concerns(iq: Element) -> bool:
    """Return whether an IQ is a request of the namespace."""
    return iq.get("type") in ("get", "set") and len(iq) > 0 and iq[0].tag.startswith(f"{{{QOS}}}")


def read(iq: Element) -> Carried:
    """Read a request of the namespace; raise ValueError if it is malformed."""
    asked = iq[0]
    verb = asked.tag.rpartition("}")[2]
    if iq.get("type") != "set" or len(iq) != 1 or verb not in get_args(Verb) or not iq.get("id"):
        raise ValueError("is not a set with one known element")
    msg_id = "" if verb == "acknowledged" else identified(asked.get("msgId", ""))
    if verb == "deliver":
        if len(asked):
            raise ValueError("has a deliver with children")
        return Carried("deliver", msg_id, None)
    if len(asked) != 1 or (asked.text or "").strip() or (asked[0].tail or "").strip():
        raise ValueError("does not carry exactly one message")
    return Carried(cast("Verb", verb), msg_id, _message(asked[0]))


def _message(found: Element) -> Element:
    """Return the message in the client namespace; raise ValueError if it is not a message."""
    space, _, name = found.tag.removeprefix("{").rpartition("}")
    if name != "message" or space not in EMBEDDED:
        raise ValueError("carries something else than a message")
    if space != CLIENT:
        for part in found.iter():
            if part.tag.startswith(f"{{{space}}}"):
                part.tag = f"{{{CLIENT}}}{part.tag.rpartition('}')[2]}"
    return found
