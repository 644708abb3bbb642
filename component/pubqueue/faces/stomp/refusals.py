"""The words of every refusal in an ERROR: a table that is total."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.faces.stomp.problems import Message, Problem
from pubqueue.model.decision import Refusal, Refused, in_words

if TYPE_CHECKING:
    from pubqueue.model.decision import Reply

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
