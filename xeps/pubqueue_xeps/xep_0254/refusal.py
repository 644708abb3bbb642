"""From a stanza error to a sentence for the bot's author."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue_xeps.errors import (
    NoSuchNode,
    NotAQueue,
    PubqueueError,
    Refused,
    ServiceUnavailable,
)
from pubqueue_xeps.ns import PUBSUB_ERRORS, STANZAS

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

# What a server says for a component that is away, or a service that is overloaded.
TRANSIENT: Final = frozenset(
    {
        "internal-server-error",
        "recipient-unavailable",
        "remote-server-not-found",
        "remote-server-timeout",
        "resource-constraint",
        "service-unavailable",
    }
)


def conditions(iq: Element) -> tuple[str, str]:
    """Return the defined condition of an error and, if there is one, pubsub's own beside it."""
    defined = specific = ""
    error = next((child for child in iq if child.tag.endswith("}error")), None)
    for child in () if error is None else error:
        namespace, _, name = child.tag[1:].partition("}")
        if namespace == STANZAS and name != "text":
            defined = name
        elif namespace == PUBSUB_ERRORS:
            specific = name
    return defined or "undefined-condition", specific


def refusal(iq: Element, service: str, node: str) -> PubqueueError:
    """Make the exception for an error that `service` answered about `node`."""
    defined, specific = conditions(iq)
    why = f"{defined}, {specific}" if specific else defined
    if defined in TRANSIENT:
        return ServiceUnavailable(f"{service} does not answer now: {why}.")
    if defined == "item-not-found":
        return NoSuchNode(f"{service} has no node {node!r}.")
    # a plain node knows no option queue_requests (XEP-0060 section 6.3.5)
    if defined == "feature-not-implemented" or specific == "invalid-options":
        return NotAQueue(f"{node!r} at {service} is not a work queue: {why}.")
    return Refused(f"{service} refused the request about {node!r}: {why}.")
