"""The contents of an ERROR, which also ends the connection: the header `message`, and a sentence."""

from __future__ import annotations

from enum import StrEnum, unique
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pubqueue.faces.stomp.codec import V12, Frame, write

if TYPE_CHECKING:
    from pubqueue.faces.stomp.codec import Fault, Version

TEXT: Final = "text/plain"


@unique
class Message(StrEnum):
    """The words of the header `message`, in addition to those of the codec for invalid frames."""

    BAD_HEADER = "bad header"
    """A value that the header cannot have."""
    HEADER_MISSING = "header missing"
    NOT_SUPPORTED = "not supported"
    NOT_CONNECTED = "not connected"
    """A frame before CONNECT."""
    ALREADY_CONNECTED = "already connected"
    UNSUPPORTED_VERSION = "unsupported version"
    BAD_HEART_BEAT = "bad heart-beat"
    UNKNOWN_HOST = "unknown host"
    LOGIN_REFUSED = "login refused"
    LOGIN_TIMEOUT = "login timeout"
    TOO_MANY_CONNECTIONS = "too many connections"
    TOO_MANY_SUBSCRIPTIONS = "too many subscriptions"
    TRANSACTION_TOO_LARGE = "transaction too large"
    ALREADY_SUBSCRIBED = "already subscribed"
    NO_SUCH_SUBSCRIPTION = "no such subscription"
    TRANSACTION_EXISTS = "transaction exists"
    NO_SUCH_TRANSACTION = "no such transaction"
    NO_SUCH_MESSAGE = "no such message"
    NO_SUCH_KIND = "no such kind of destination"
    NOT_FOUND = "not found"
    FORBIDDEN = "forbidden"
    BODY_NOT_ACCEPTED = "body not accepted"
    QUEUE_FULL = "queue full"
    TRY_LATER = "try again later"
    ITEM_EXISTS = "item exists"
    NO_HEART_BEAT = "no heart-beat"
    SUBSCRIPTION_ENDED = "subscription ended"
    CONNECTION_ENDED = "connection ended"
    INTERNAL_ERROR = "internal error"


class Problem(Struct, frozen=True):
    """A problem and its reason; never with a payload or a passcode."""

    message: str
    sentence: str
    headers: tuple[tuple[str, str], ...] = ()
    """Further headers of the ERROR."""


def of_fault(fault: Fault) -> Problem:
    """Return the problem with bytes that are not a frame."""
    return Problem(fault.cause, fault.sentence)


def error(problem: Problem, version: Version = V12, receipt: str | None = None) -> bytes:
    """Return the ERROR; `receipt` is that of its frame."""
    headers = {"message": problem.message, **dict(problem.headers)}
    if receipt is not None:
        headers["receipt-id"] = receipt
    headers["content-type"] = TEXT
    return write(Frame("ERROR", headers, f"{problem.sentence}\n".encode()), version)
