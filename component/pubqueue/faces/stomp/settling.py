"""The request of an ACK or a NACK."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.faces.stomp.codec import V10, V12
from pubqueue.faces.stomp.numbers import BadNumberError, span
from pubqueue.faces.stomp.problems import Message, Problem
from pubqueue.rules.settle import Outcome, Settle, Verb
from pubqueue_xeps.wire.xml_escape import ILLEGAL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pubqueue.faces.stomp.codec import Frame, Version
    from pubqueue.model.entities import Millis, NodeName, Principal

Key = tuple[str, str]
"""The name of a message in an ACK: the subscription, if the version needs it, and an id."""


def key_of(headers: Mapping[str, str], version: Version) -> Key:
    """Return the message that an ACK or a NACK names."""
    if version is V12:
        return "", headers["id"]
    return ("" if version is V10 else headers["subscription"]), headers["message-id"]


def key_for(subscription: str, message: str, ack: str, version: Version) -> Key:
    """Return the name of a message for an ACK."""
    if version is V12:
        return "", ack
    return ("" if version is V10 else subscription), message


_OUTCOMES: Final = ", ".join(outcome.value for outcome in Outcome)


def settle_of(frame: Frame, by: Principal, node: NodeName) -> Settle | Problem:
    """Return the settle for a message of the node: the caller adds its id and its lock."""
    if frame.command == "ACK":
        return Settle(by, node, (), Verb.RETRACT)
    headers = frame.headers
    try:
        delay: Millis | None = span(headers["delay"]) if "delay" in headers else None
    except BadNumberError as problem:
        return Problem(Message.BAD_HEADER, f"delay has to be {problem}")
    outcome = _outcome(headers)
    if outcome is None:
        return Problem(Message.BAD_HEADER, f"outcome has to be one of {_OUTCOMES}")
    reason = headers.get("reason", "")
    if ILLEGAL.search(reason):
        return Problem(Message.BAD_HEADER, "reason has a character that XML has not")
    return Settle(by, node, (), Verb.UNLOCK, outcome=outcome, delay=delay, reason=reason)


def _outcome(headers: Mapping[str, str]) -> Outcome | None:
    """Return how the attempt has ended: it failed, unless the headers define another outcome."""
    if headers.get("requeue") == "false":  # RabbitMQ's
        return Outcome.REJECT
    try:
        return Outcome(headers.get("outcome", Outcome.FAILED.value))
    except ValueError:
        return None
