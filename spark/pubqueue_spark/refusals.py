"""What a refused publish means for the job: the error table of the sink.

RFC 6120 section 8.3.2 gives each error a type that says what may help; a few conditions say more
than their type does. A refusal is never swallowed: it is tried again, or it fails the job.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto, unique
from typing import TYPE_CHECKING, Final

from pubqueue_spark.errors import PubqueueSparkError, RowError, ServiceError
from pubqueue_xeps import ns

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    from pubqueue_spark.request import Request


@unique
class Verdict(Enum):
    """What is done about a refused publish."""

    RETRY = auto()
    """Wait, halve the window, send it again; after `retries` times it fails the job."""
    ROW = auto()
    """This row cannot be taken; others may."""
    FATAL = auto()
    """No row will be taken."""


# fmt: off
BY_TYPE: Final = {
    "wait":   Verdict.RETRY,
    "modify": Verdict.ROW,
    "auth":   Verdict.FATAL,
    "cancel": Verdict.FATAL,
}
BY_CONDITION: Final = {                    # whatever their type
    "conflict":            Verdict.ROW,    # the id belongs to a locked item with another payload
    "not-acceptable":      Verdict.ROW,
    "payload-too-big":     Verdict.ROW,
    "invalid-payload":     Verdict.ROW,
    "node-full":           Verdict.RETRY,  # workers make room
    "max-items-exceeded":  Verdict.RETRY,
}
REMEDY: Final = {
    "forbidden": "let the node's owner make the account its publisher",
    "item-not-found": "create the node, or mend its name",
    "node-full": "the queue stayed full; add workers, or raise pubsub#max_items",
    "payload-too-big": "put the bulk elsewhere and its address into the payload",
    "remote-server-timeout": "see that the service runs",
    "resource-constraint": "the service is overloaded; use fewer tasks or a smaller maxInFlight",
    "service-unavailable": "see that the service runs",
}
# fmt: on


@dataclass(frozen=True, slots=True)
class Refusal:
    """The error of one answer (RFC 6120 8.3.2)."""

    type: str
    condition: str
    detail: str = ""
    """XEP-0060's own condition, which says more: payload-too-big, node-full."""
    text: str = ""

    def __str__(self) -> str:
        """Return the words of a sentence: condition, type, text, and what may help."""
        name = f"{self.condition} ({self.detail})" if self.detail else self.condition
        remedy = REMEDY.get(self.detail) or REMEDY.get(self.condition)
        words = [f"{name}, type {self.type}", self.text.strip().rstrip("."), remedy or ""]
        return "; ".join(word for word in words if word)


def read(iq: Element) -> Refusal:
    """Read the error of an IQ of type error; an IQ without one counts as undefined-condition."""
    error = iq.find(f"{{{ns.CLIENT}}}error")
    condition = detail = text = ""
    for child in error if error is not None else ():
        space, _, name = child.tag.removeprefix("{").rpartition("}")
        if space != ns.STANZAS:
            detail = detail or name
        elif name == "text":
            text = child.text or ""
        else:
            condition = name
    kind = error.get("type", "cancel") if error is not None else "cancel"
    return Refusal(kind, condition or "undefined-condition", detail, text)


def judge(refusal: Refusal) -> Verdict:
    """Return what to do: XEP-0060's condition outranks the general one, which outranks the type."""
    verdict = BY_CONDITION.get(refusal.detail) or BY_CONDITION.get(refusal.condition)
    return verdict or BY_TYPE.get(refusal.type, Verdict.FATAL)


def failure(
    refusal: Refusal, request: Request, *, service: str, retried: int
) -> PubqueueSparkError:
    """Return what fails the job, with what was asked and the reason; no word of the payload."""
    again = f" after {retried} retries" if retried else ""
    sentence = f"{service} refused {request}{again}: {refusal}."
    return RowError(sentence) if judge(refusal) is Verdict.ROW else ServiceError(sentence)
