"""The contents of every ERROR, which also ends the connection."""

from __future__ import annotations

from enum import StrEnum, unique
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pubqueue.faces.stomp.codec import V12, Frame, write
from pubqueue.model.decision import Refusal, Refused, in_words

if TYPE_CHECKING:
    from pubqueue.faces.stomp.codec import Fault, Version
    from pubqueue.model.decision import Reply


# The contents of an ERROR, which also ends the connection: the header `message`, and a sentence.

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
    TOO_MUCH_KEPT = "too much kept"
    """Of all clients together; this one had to go."""
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


# The words of every refusal in an ERROR: a table that is total.

# fmt: off
WORDS: Final[dict[Refusal, Message]] = {
    Refusal.NODE_NOT_FOUND:           Message.NOT_FOUND,
    Refusal.NOT_A_QUEUE:              Message.NOT_FOUND,
    Refusal.PRECONDITION_NOT_MET:     Message.NOT_FOUND,  # /queue/ of a plain node, /topic/ of a queue
    Refusal.CONFIGURATION_REQUIRED:   Message.NOT_FOUND,  # SUBSCRIBE to /topic/ of a queue
    Refusal.MOVED:                    Message.NOT_FOUND,
    Refusal.FORBIDDEN:                Message.FORBIDDEN,
    Refusal.CLOSED_NODE:              Message.FORBIDDEN,
    Refusal.NOT_YOURS:                Message.FORBIDDEN,
    Refusal.PENDING_SUBSCRIPTION:     Message.FORBIDDEN,
    Refusal.NOT_APPROVED:             Message.FORBIDDEN,
    Refusal.NO_PRESENCE_SUBSCRIPTION: Message.FORBIDDEN,
    Refusal.NOT_IN_ROSTER_GROUP:      Message.FORBIDDEN,
    Refusal.FOREIGN_JID:              Message.FORBIDDEN,
    Refusal.TOO_MANY_NODES:           Message.FORBIDDEN,
    Refusal.PAYLOAD_TOO_BIG:          Message.BODY_NOT_ACCEPTED,
    Refusal.HEADERS_TOO_BIG:          Message.BODY_NOT_ACCEPTED,
    Refusal.WRONG_PAYLOAD:            Message.BODY_NOT_ACCEPTED,
    Refusal.PAYLOAD_REQUIRED:         Message.BODY_NOT_ACCEPTED,
    Refusal.ITEM_REQUIRED:            Message.BODY_NOT_ACCEPTED,
    Refusal.ITEM_FORBIDDEN:           Message.BODY_NOT_ACCEPTED,
    Refusal.NODE_FULL:                Message.QUEUE_FULL,
    Refusal.TOO_MANY_ITEMS:           Message.QUEUE_FULL,
    Refusal.TOO_MUCH_KEPT:            Message.QUEUE_FULL,
    Refusal.PUBLISH_PAUSED:           Message.TRY_LATER,
    Refusal.STILL_NOTIFYING:          Message.TRY_LATER,
    Refusal.STORE_FAILED:             Message.TRY_LATER,
    Refusal.TOO_MANY_WAITING:         Message.TRY_LATER,
    Refusal.ITEM_LOCKED:              Message.ITEM_EXISTS,
    Refusal.ITEM_EXISTS:              Message.ITEM_EXISTS,
    Refusal.ITEM_NOT_FOUND:           Message.NO_SUCH_MESSAGE,
    Refusal.LOCK_LOST:                Message.NO_SUCH_MESSAGE,
    Refusal.LOCKED_BY_ANOTHER:        Message.NO_SUCH_MESSAGE,
    Refusal.TOO_MANY_SUBSCRIPTIONS:   Message.TOO_MANY_SUBSCRIPTIONS,
    Refusal.NOT_SUBSCRIBED:           Message.NO_SUCH_SUBSCRIPTION,
    Refusal.BAD_REQUEST:              Message.BAD_HEADER,
    Refusal.INVALID_OPTIONS:          Message.BAD_HEADER,
    Refusal.UNSUPPORTED:              Message.NOT_SUPPORTED,
    # no frame can cause these: a request of ours was wrong
    Refusal.NODE_EXISTS:              Message.INTERNAL_ERROR,
    Refusal.INVALID_CONFIG:           Message.INTERNAL_ERROR,
    Refusal.UNSUPPORTED_ACCESS_MODEL: Message.INTERNAL_ERROR,
    Refusal.NOT_ALL_CHANGED:          Message.INTERNAL_ERROR,
    Refusal.SUBID_REQUIRED:           Message.INTERNAL_ERROR,
    Refusal.INVALID_SUBID:            Message.INTERNAL_ERROR,
    Refusal.LAST_OWNER:               Message.INTERNAL_ERROR,
    Refusal.TOO_MUCH_STAGED:          Message.INTERNAL_ERROR,
    Refusal.NOT_AS_STAGED:            Message.INTERNAL_ERROR,
    Refusal.WINDOW_FULL:              Message.INTERNAL_ERROR,
    Refusal.KEY_REUSED:               Message.INTERNAL_ERROR,
    Refusal.NOT_TRUSTED:              Message.INTERNAL_ERROR,
    Refusal.TOO_MUCH_HELD:            Message.INTERNAL_ERROR,
    Refusal.UNKNOWN_MESSAGE:          Message.INTERNAL_ERROR,
    Refusal.TOO_MANY_KEYS:            Message.INTERNAL_ERROR,
    Refusal.INTERNAL_FAULT:           Message.INTERNAL_ERROR,
}
# fmt: on
"""The header `message` of each refusal."""

LOST: Final = frozenset({Refusal.LOCK_LOST, Refusal.LOCKED_BY_ANOTHER, Refusal.ITEM_NOT_FOUND})
"""Refusals of an ACK or NACK that arrives after the end of the lock."""


def problem_of(refused: Refused, note: str = "") -> Problem:
    """Return the text for the client, with the bound if there is one, and a note."""
    return Problem(WORDS[refused.refusal], in_words(refused) + note)


def unexpected(reply: Reply, size: int = 0) -> Problem:
    """Return the problem of a failed request; `size` is that of the payload as it would be stored."""
    if not isinstance(reply, Refused):
        return Problem(Message.FORBIDDEN, "the rosters of the owners decide who may")
    is_large = reply.refusal is Refusal.PAYLOAD_TOO_BIG
    return problem_of(reply, f"; as it is stored it has {size} bytes" if is_large else "")
