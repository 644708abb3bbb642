"""Reads stanza errors, and makes exceptions with readable messages from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pubqueue_xeps.errors import (
    NoSuchNode,
    NotAQueue,
    PubqueueError,
    Refused,
    ServiceUnavailable,
)
from pubqueue_xeps.wire.ns import STANZAS

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

# a server's answer for a disconnected component, or that of an overloaded service
TRANSIENT: Final = frozenset(
    {
        "recipient-unavailable",
        "remote-server-not-found",
        "remote-server-timeout",
        "resource-constraint",
        "service-unavailable",
    }
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """The error of one answer (RFC 6120 8.3.2)."""

    type: str
    condition: str
    detail: str = ""
    """XEP-0060's own condition, which is more precise: payload-too-big, node-full."""
    text: str = ""

    @property
    def is_transient(self) -> bool:
        """Whether a retry may help: the server or service is away or overloaded, or has a temporary fault.

        An error of type cancel is a lasting fault of the service, and would occur again.
        """
        if self.condition == "internal-server-error":
            return self.type == "wait"
        return self.condition in TRANSIENT

    @property
    def name(self) -> str:
        """The conditions, the defined one first."""
        return f"{self.condition}, {self.detail}" if self.detail else self.condition

    @property
    def summary(self) -> str:
        """The conditions, and the service's own text."""
        words = self.text.strip().rstrip(".")
        return f"{self.name} ({words})" if words else self.name


def read(iq: Element) -> Refusal:
    """Read the error of an IQ of type error; an IQ without one counts as undefined-condition."""
    # a stream of a component has another namespace than that of a client
    error = next((child for child in iq if child.tag.endswith("}error")), None)
    condition = detail = text = ""
    for child in error if error is not None else ():
        space, _, name = child.tag.removeprefix("{").rpartition("}")
        if space != STANZAS:
            detail = detail or name
        elif name == "text":
            text = child.text or ""
        else:
            condition = name
    kind = error.get("type", "cancel") if error is not None else "cancel"
    return Refusal(kind, condition or "undefined-condition", detail, text)


def failure(refusal: Refusal, service: str, node: str) -> PubqueueError:
    """Make the exception for a refusal by `service` about `node`."""
    why = refusal.summary
    facts = {"condition": refusal.detail or refusal.condition, "node": node}
    if refusal.is_transient:
        return ServiceUnavailable(f"{service} does not answer now: {why}.", **facts)
    if refusal.condition == "item-not-found":
        return NoSuchNode(f"{service} has no node {node!r}.", **facts)
    # a plain node has no option queue_requests (XEP-0060 section 6.3.5)
    if refusal.condition == "feature-not-implemented" or refusal.detail == "invalid-options":
        return NotAQueue(f"{node!r} at {service} is not a work queue: {why}.", **facts)
    return Refused(f"{service} refused the request about {node!r}: {why}.", **facts)
