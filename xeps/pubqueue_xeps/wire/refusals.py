"""Reads stanza errors, and makes exceptions with readable messages from them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from pubqueue_xeps.errors import (
    FollowUpRefused,
    NoSuchNode,
    NotAQueue,
    PubqueueError,
    Refused,
    ServiceUnavailable,
)
from pubqueue_xeps.wire.names import ILLEGAL
from pubqueue_xeps.wire.ns import PUBQUEUE, STANZAS
from pubqueue_xeps.wire.times import until

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    from pubqueue_xeps.wire.times import When


FOLLOW_UP: Final = f"{{{PUBQUEUE}}}follow-up"

NOT_REACHED: Final = frozenset(
    {"recipient-unavailable", "remote-server-not-found", "remote-server-timeout"}
)
"""The answers of a server for a component that is not connected."""

# those, or that of an overloaded service
TRANSIENT: Final = NOT_REACHED | {"resource-constraint", "service-unavailable"}


@dataclass(frozen=True, slots=True)
class Refusal:
    """The error of one answer (RFC 6120 8.3.2)."""

    type: str
    condition: str
    detail: str = ""
    """XEP-0060's own condition, which is more precise: payload-too-big, node-full."""
    text: str = ""
    follow_up: int = 0
    """The number, from 1, of the follow-up that is refused; 0 if it is the request itself."""

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
    follow_up = 0
    for child in error if error is not None else ():
        space, _, name = child.tag.removeprefix("{").rpartition("}")
        if child.tag == FOLLOW_UP:
            follow_up = _number(child.get("n", ""))
            detail = child[0].tag.rpartition("}")[2] if len(child) else ""
        elif space != STANZAS:
            detail = detail or name
        elif name == "text":
            text = child.text or ""
        else:
            condition = name
    kind = error.get("type", "cancel") if error is not None else "cancel"
    return Refusal(kind, condition or "undefined-condition", detail, text, follow_up)


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else 1


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


# The outcomes of an unlock, and the exceptions by which a handler chooses one.
#
# An unlock may carry an outcome to a service that supports `urn:x-pubqueue:0`; any other service gets
# a plain unlock (XEP-0254 section 2.4), which is the same as a release.

MAX_REASON: Final = 1023

# ruff: noqa: N818 - the names say what will happen to the item


@dataclass(frozen=True, slots=True, init=False)
class Outcome:
    """How the attempt ended, in an unlock.

    release: the item is delivered again, and no failure is counted. failed: a failure is counted; an item that has
    failed too often is dead. reject: the item is dead at once. `delay` is the minimum time that a released or failed
    item waits: seconds, a timedelta or an aware datetime, and seconds when read. `reason` is stored with a dead item,
    where the owners of the queue read it: do not put payload into it. The first 1023 characters of a reason are sent,
    with U+FFFD in place of characters that XML forbids; a server may turn line ends and tabs into spaces.
    """

    type: Literal["release", "failed", "reject", "hold"] = "release"
    delay: float | None = None
    reason: str | None = None

    def __init__(
        self,
        type: Literal["release", "failed", "reject"] = "release",  # noqa: A002 - the attribute's
        delay: When | None = None,
        reason: str | None = None,
    ) -> None:
        put = object.__setattr__  # it is frozen
        put(self, "type", type)
        put(self, "delay", None if delay is None else until("delay", delay))
        put(self, "reason", reason)

    def attributes(self) -> dict[str, str]:
        """Return the outcome as the attributes of an `outcome` element."""
        written: dict[str, str] = {"type": self.type}
        if self.delay is not None:
            written["delay"] = f"{math.ceil(self.delay * 1000) / 1000:.3f}"
        if self.reason is not None:
            written["reason"] = ILLEGAL.sub("\ufffd", self.reason)[:MAX_REASON]
        return written


class Verdict(Exception):
    """An exception by which a handler decides what happens to its item."""

    def __init__(self, sentence: str, outcome: Outcome) -> None:
        super().__init__(sentence)
        self.outcome = outcome


class Release(Verdict):
    """Raised by a handler to release the item: it is requeued, and this is not counted as a failure.

    The item is delivered again after `delay` (seconds, a timedelta, or an aware datetime), or when the service
    decides. `reason`, if given, goes to the node's event log, which owners read; do not put payload into it.
    """

    def __init__(self, delay: When | None = None, reason: str | None = None) -> None:
        super().__init__("The item is released.", Outcome("release", delay, reason))


class Failed(Verdict):
    """Raised by a handler to count a failure with a reason of its own; any other exception counts with its class name.

    The item is delivered again after `delay` at least (as for Release), or is dead if it has failed too often.
    `reason` is stored with a dead item and read by the owners of the queue; do not put payload into it.
    """

    def __init__(self, reason: str, delay: When | None = None) -> None:
        super().__init__(reason, Outcome("failed", delay, reason))


class Reject(Verdict):
    """Raised by a handler to make the item dead at once: no worker tries it again.

    `reason` is stored with the item and read by the owners of the queue; do not put payload into it.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason, Outcome("reject", reason=reason))


def outcome_of(error: BaseException) -> Outcome:
    """Return the outcome that an exception stands for.

    Release, Failed and Reject carry their outcome. Any other exception is a failure with the name of its class as the
    reason, never with its text, which may contain the payload; only a follow-up that was refused is named with the
    service's reason. An exception that ends the program or the task, such
    as a cancellation, is a release.
    """
    if isinstance(error, Verdict):
        return error.outcome
    if isinstance(error, FollowUpRefused):
        return Outcome("failed", reason=f"FollowUpRefused: {error}")
    if isinstance(error, Exception):
        return Outcome("failed", reason=type(error).__name__)
    return Outcome("release")
