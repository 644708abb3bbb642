"""The contents of every ERROR, which also ends the connection."""

from __future__ import annotations

from enum import StrEnum, unique
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pubqueue.faces.stomp.codec import V12, Frame, write
from pubqueue.model.decision import Refusal, Refused, in_words

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

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
    """A transaction without a name."""
    NOT_SUPPORTED = "not supported"
    """A header that asks for what the service does in another way; the body names the way."""
    NOT_CONNECTED = "not connected"
    """A frame before CONNECT."""
    ALREADY_CONNECTED = "already connected"
    """A second CONNECT."""
    UNSUPPORTED_VERSION = "unsupported version"
    """There is no version that both sides have."""
    BAD_HEART_BEAT = "bad heart-beat"
    """A `heart-beat` that is not two numbers."""
    UNKNOWN_HOST = "unknown host"
    """A `host` that the settings do not list."""
    LOGIN_REFUSED = "login refused"
    """The login and the passcode are not those of a user, or the user is gone."""
    LOGIN_TIMEOUT = "login timeout"
    """No CONNECT in time."""
    TOO_MANY_CONNECTIONS = "too many connections"
    """Of the user, or of the service."""
    TOO_MANY_SUBSCRIPTIONS = "too many subscriptions"
    """Of the connection, or of the node."""
    TRANSACTION_TOO_LARGE = "transaction too large"
    """A transaction with too many messages or bytes."""
    ALREADY_SUBSCRIBED = "already subscribed"
    """The id of a subscription is in use."""
    NO_SUCH_SUBSCRIPTION = "no such subscription"
    """The connection has no subscription with this id."""
    TRANSACTION_EXISTS = "transaction exists"
    """BEGIN of a transaction that is open."""
    NO_SUCH_TRANSACTION = "no such transaction"
    """A transaction that is not open."""
    NO_SUCH_MESSAGE = "no such message"
    """A message that this connection does not hold."""
    NO_SUCH_KIND = "no such kind of destination"
    """A destination with a prefix that is neither of queues nor of topics."""
    NOT_FOUND = "not found"
    FORBIDDEN = "forbidden"
    BODY_NOT_ACCEPTED = "body not accepted"
    QUEUE_FULL = "queue full"
    TRY_LATER = "try again later"
    ITEM_EXISTS = "item exists"
    NO_HEART_BEAT = "no heart-beat"
    """The client promised heart-beats and was silent."""
    SUBSCRIPTION_ENDED = "subscription ended"
    """The subscription was ended from outside, or its node was deleted."""
    TOO_MUCH_KEPT = "too much kept"
    """Of all clients together; this one had to go."""
    CONNECTION_ENDED = "connection ended"
    """An administrator has ended the connection."""
    INTERNAL_ERROR = "internal error"
    """A fault of the service, which it has logged."""


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
    Refusal.TOO_MANY_SIGNALS:         Message.QUEUE_FULL,
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


# Words of other brokers in the headers of a frame: each that asks for what is not done by a header here, and the way to get it.
#
# A word that would change the meaning of a frame is read (`frames`), or is an ERROR that names the way: none is accepted and has
# no effect (decision 145). Every other word cannot matter here, and ends no connection.


class Foreign(Struct, frozen=True):
    """Words that ask for the same."""

    frames: str
    """The commands in which they have a meaning, with spaces between them."""
    words: str
    way: str
    """How to get here what they ask for."""
    harmless: frozenset[str] = frozenset({"", "false"})
    """Values that ask for nothing, in small letters."""
    kinds: frozenset[bool] = frozenset({True, False})
    """Whether they matter at a queue (True), or at a topic; at the other kind they ask for what is so anyway, or for nothing."""


_QUEUES: Final = frozenset({True})
_TOPICS: Final = frozenset({False})
_ANY: Final[frozenset[str]] = frozenset()
_NONE: Final = frozenset({""})
_ZERO: Final = frozenset({"", "0"})

_SUBSCRIPTIONS: Final = "SUBSCRIBE UNSUBSCRIBE"
_DECLARES: Final = "SEND SUBSCRIBE"

# fmt: off
FOREIGN: Final = (
    # subscriptions
    Foreign("SUBSCRIBE", "browser browser-end activemq.browser",
        "a subscription takes what it gets; `pubqueue items`, the page and the HTTP API show items and leave them where they are"),
    Foreign("SUBSCRIBE", "selector activemq.selector",
        "there are no selectors; what would filter is a queue of its own, which a topic feeds (`x-queueing#filter`)", _NONE),
    Foreign(_SUBSCRIPTIONS, "durable persistent",
        "a topic keeps nothing for subscribers that are away; a queue that the topic feeds does (`x-queueing#source`)", kinds=_TOPICS),
    Foreign(_SUBSCRIPTIONS, "activemq.subscriptionName activemq.subcriptionName durable-subscription-name durable-subscriber-name x-queue-name",
        "a topic keeps nothing under a name; name a queue that the topic feeds as destination (`x-queueing#source`)", _NONE, _TOPICS),
    Foreign("SUBSCRIBE", "auto-delete",
        "a queue stays until it is deleted (`pubqueue node delete`)", kinds=_QUEUES),
    Foreign("SUBSCRIBE", "exclusive activemq.exclusive",
        "the workers of a queue share it; items with the same `group` are done in their order, one at a time", kinds=_QUEUES),
    Foreign(_DECLARES, "x-single-active-consumer",
        "the workers of a queue share it; items with the same `group` are done in their order, one at a time", kinds=_QUEUES),
    Foreign("SUBSCRIBE", "activemq.priority x-priority",
        "the workers of a queue take turns; `prefetch-count` says how much each has", _ZERO, _QUEUES),
    Foreign("SUBSCRIBE", "no-local activemq.noLocal",
        "what an account sends comes to its own subscriptions, too; the header `publisher` names the account"),
    Foreign("SUBSCRIBE", "activemq.retroactive from-seq include-seq",
        "a subscription begins now; REST reads the items that a topic keeps from a number on", frozenset({"", "false", "0", "-1"}), _TOPICS),
    Foreign("SUBSCRIBE", "activemq.maximumPendingMessageLimit",
        "nothing is dropped for a client that does not read; a queue with `x-queueing#expired` of `truncate` drops its oldest items", frozenset({"", "-1", "0"}), _TOPICS),
    # redelivery, and settings of queues
    Foreign(_DECLARES, "x-delivery-limit",
        "a setting of the queue does this: `x-queueing#max_failures`", _NONE),
    Foreign("SUBSCRIBE", "maximumRedeliveries max-delivery-attempts redeliveryDelay redelivery-delay initialRedeliveryDelay"
        " maximumRedeliveryDelay useExponentialBackOff backOffMultiplier redeliveryPolicy",
        "settings of the queue do this: `x-queueing#max_failures`, `x-queueing#backoff_min`, `x-queueing#backoff_max`", _NONE),
    Foreign(_DECLARES, "x-dead-letter-exchange x-dead-letter-routing-key x-dead-letter-strategy",
        "a setting of the queue does this: `x-queueing#dead_letter_node`", _NONE),
    Foreign(_DECLARES, "x-message-ttl x-max-age",
        "`ttl` of a SEND does this for its item, and `pubsub#item_expire` for all of a node", _NONE),
    Foreign(_DECLARES, "x-expires",
        "a queue stays until it is deleted (`pubqueue node delete`)", _NONE),
    Foreign(_DECLARES, "x-max-length x-max-length-bytes x-overflow",
        "settings of the node do this: `pubsub#max_items`, `x-queueing#max_bytes`, `x-queueing#expired`", _NONE),
    Foreign(_DECLARES, "x-consumer-timeout",
        "a setting of the queue does this: `x-queueing#lock_timeout`", _NONE),
    Foreign(_DECLARES, "x-queue-type",
        "a queue has no stream; REST reads the items that a topic keeps from a number on", frozenset({"", "classic", "quorum"})),
    Foreign("SUBSCRIBE", "x-stream-offset x-stream-filter x-stream-match-unfiltered",
        "there are no streams; REST reads the items that a topic keeps from a number on", _NONE),
    # messages
    Foreign("SEND", "AMQ_SCHEDULED_CRON AMQ_SCHEDULED_PERIOD AMQ_SCHEDULED_REPEAT AMQ_SCHEDULER_ACTION",
        "a schedule does this, not a header (`pubqueue schedule`)", _ZERO),
    Foreign("SEND", "retain",
        "a topic keeps its newest items if its settings say so: `pubsub#persist_items`, `pubsub#max_items`", kinds=_TOPICS),
    Foreign("SEND", "_AMQ_LVQ_NAME",
        "a topic that keeps items keeps the last one of each `item-id`", _NONE),
)
# fmt: on
"""All words that are refused."""


def _table(command: str) -> Mapping[str, Foreign]:
    found = [row for row in FOREIGN if command in row.frames.split()]
    return MappingProxyType({word: row for row in found for word in row.words.split()})


REFUSED: Final[Mapping[str, Mapping[str, Foreign]]] = MappingProxyType(
    {command: _table(command) for command in ("SEND", *_SUBSCRIPTIONS.split())}
)
"""The refused words of each command that has some.

Other frames have none. CONNECT: `client-id` names durable subscriptions, and each is refused where it is asked for. ACK and NACK may
have all headers of their MESSAGE, which clients copy. BEGIN, COMMIT, ABORT and DISCONNECT have no words at other brokers.
"""

_IN_MESSAGES: Final = "AMQ_SCHEDULED_DELAY AMQ_SCHEDULED_TIME"
_IN_SUBSCRIPTIONS: Final = "activemq.prefetchSize activemq.dispatchAsync activemq.noRangeAcks activemq.optimizedAcknowledge"

CLOSED: Final[Mapping[str, tuple[str, frozenset[str]]]] = MappingProxyType(
    {
        "SEND": ("AMQ_SCHEDULE", frozenset(_IN_MESSAGES.split())),
        "SUBSCRIBE": ("activemq.", frozenset(_IN_SUBSCRIPTIONS.split())),
    }
)
"""Beginnings with which a broker reserves words, and which of these are read, or cannot matter: every other is refused."""

TEMPORARY: Final = ("/temp-queue/", "/temp-topic/", "/remote-temp-queue/", "/reply-queue/")
"""Destinations that another broker makes for the answers to a message."""

REPLY: Final = "reply-to"


def refused_word(
    command: str, headers: Mapping[str, str], kinds: Collection[bool]
) -> Problem | None:
    """Return the first word of a frame that asks for what a header does not do here; `kinds`: its node may be a queue, or a topic."""
    table = REFUSED[command]
    beginning, known = CLOSED.get(command, ("", _ANY))
    for name, value in headers.items():
        row = table.get(name)
        if row is not None:
            if value.strip().lower() not in row.harmless and not row.kinds.isdisjoint(kinds):
                return Problem(Message.NOT_SUPPORTED, f"{name}: {row.way}")
        elif beginning and name.startswith(beginning) and name not in known:
            return Problem(
                Message.NOT_SUPPORTED,
                f"{name!a}: nothing here is set in this way; see the settings of the node",
            )
        elif name == REPLY and command == "SEND" and value.startswith(TEMPORARY):
            way = "no queue is made for the answers to one message; name one that is there, such as /queue/NAME"
            return Problem(Message.NOT_SUPPORTED, f"{name}: {way}")
    return None
