"""The table of errors: what a refused publish means for the job.

RFC 6120 section 8.3.2 gives each error a type that suggests a reaction; a few conditions are more precise than their
type. A refusal is never ignored: it is retried, or it fails the job.
"""

from __future__ import annotations

from enum import Enum, auto, unique
from typing import TYPE_CHECKING, Final

from pubqueue_spark.errors import PubqueueSparkError, RowError, ServiceError

if TYPE_CHECKING:
    from pubqueue_spark.client.request import Request
    from pubqueue_xeps.wire.refusals import Refusal


@unique
class Verdict(Enum):
    """The reaction to a refused publish."""

    RETRY = auto()
    """Wait, halve the window, send it again; after `retries` times it fails the job."""
    ROW = auto()
    """This row is not accepted; others may be."""
    FEWER = auto()
    """The service does not accept this many rows at once; a single row that it does not accept fails the job."""
    FATAL = auto()
    """No row will be accepted."""


# fmt: off
BY_TYPE: Final = {
    "wait":   Verdict.RETRY,
    "modify": Verdict.ROW,
    "auth":   Verdict.FATAL,
    "cancel": Verdict.FATAL,
}
BY_CONDITION: Final = {                    # whatever their type
    "conflict":           Verdict.ROW,    # the id belongs to a locked item with another payload
    "not-acceptable":     Verdict.ROW,
    "payload-too-big":    Verdict.ROW,
    "invalid-payload":    Verdict.ROW,
    "node-full":          Verdict.RETRY,  # workers make room
    "max-items-exceeded": Verdict.FEWER,
}
REMEDY: Final = {
    "forbidden": "let the node's owner make the account its publisher",
    "item-not-found": "create the node, or correct its name",
    "node-full": "the queue stayed full; add workers, or raise pubsub#max_items",
    "payload-too-big": "store large data elsewhere and put its address into the payload",
    "remote-server-timeout": "check that the service is running",
    "resource-constraint": "the service is overloaded; use fewer tasks or a smaller maxInFlight",
    "service-unavailable": "check that the service is running",
}
STAGED: Final = "wait for a commit"
"""The words of a service that keeps no more staged items."""
TOO_MUCH_STAGED: Final = (
    "write fewer rows in one batch: a stream by maxFilesPerTrigger, a job in pieces with a rising"
    " txnVersion, or let the service's operator raise [transactions]"
)
# fmt: on


def explanation(refusal: Refusal) -> str:
    """Return a sentence with condition, type and text, and a remedy if there is one."""
    name = refusal.condition
    if refusal.detail:
        name = f"{name} ({refusal.detail})"
    remedy = REMEDY.get(refusal.detail) or REMEDY.get(refusal.condition)
    if refusal.condition == "resource-constraint" and STAGED in refusal.text:
        remedy = TOO_MUCH_STAGED
    words = [f"{name}, type {refusal.type}", refusal.text.strip().rstrip("."), remedy or ""]
    return "; ".join(word for word in words if word)


def judge(refusal: Refusal) -> Verdict:
    """Return the reaction: XEP-0060's condition outranks the general one, which outranks the type."""
    verdict = BY_CONDITION.get(refusal.detail) or BY_CONDITION.get(refusal.condition)
    return verdict or BY_TYPE.get(refusal.type, Verdict.FATAL)


def failure(
    refusal: Refusal, request: Request, *, service: str, retried: int
) -> PubqueueSparkError:
    """Return the exception that fails the job; it names the request and the reason, never the payload."""
    again = f" after {retried} retries" if retried else ""
    sentence = f"{service} refused {request}{again}: {explanation(refusal)}."
    return RowError(sentence) if judge(refusal) is Verdict.ROW else ServiceError(sentence)
