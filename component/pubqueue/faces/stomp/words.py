"""Words of other brokers in the headers of a frame: what each asks for that is not done by a header here, and the way to get it.

A word that would change the meaning of a frame is read (`frames`), or is an ERROR that names the way: none is accepted and has no
effect (decision 145). Every other word cannot matter here, and ends nobody's connection.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pubqueue.faces.stomp.refusals import Message, Problem

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


class Row(Struct, frozen=True):
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
ROWS: Final = (
    # subscriptions
    Row("SUBSCRIBE", "browser browser-end activemq.browser",
        "a subscription takes what it gets; `pubqueue items`, the page and the HTTP API show items and leave them where they are"),
    Row("SUBSCRIBE", "selector activemq.selector",
        "there are no selectors; what would filter is a queue of its own, which a topic feeds (`x-queueing#filter`)", _NONE),
    Row(_SUBSCRIPTIONS, "durable persistent",
        "a topic keeps nothing for subscribers that are away; a queue that the topic feeds does (`x-queueing#source`)", kinds=_TOPICS),
    Row(_SUBSCRIPTIONS, "activemq.subscriptionName activemq.subcriptionName durable-subscription-name durable-subscriber-name x-queue-name",
        "a topic keeps nothing under a name; name a queue that the topic feeds as destination (`x-queueing#source`)", _NONE, _TOPICS),
    Row("SUBSCRIBE", "auto-delete",
        "a queue stays until it is deleted (`pubqueue node delete`)", kinds=_QUEUES),
    Row("SUBSCRIBE", "exclusive activemq.exclusive",
        "the workers of a queue share it; items with the same `group` are done in their order, one at a time", kinds=_QUEUES),
    Row(_DECLARES, "x-single-active-consumer",
        "the workers of a queue share it; items with the same `group` are done in their order, one at a time", kinds=_QUEUES),
    Row("SUBSCRIBE", "activemq.priority x-priority",
        "the workers of a queue take turns; `prefetch-count` says how much each has", _ZERO, _QUEUES),
    Row("SUBSCRIBE", "no-local activemq.noLocal",
        "what an account sends comes to its own subscriptions, too; the header `publisher` names the account"),
    Row("SUBSCRIBE", "activemq.retroactive from-seq include-seq",
        "a subscription begins now; REST reads the items that a topic keeps from a number on", frozenset({"", "false", "0", "-1"}), _TOPICS),
    Row("SUBSCRIBE", "activemq.maximumPendingMessageLimit",
        "nothing is dropped for a client that does not read; a queue with `x-queueing#expired` of `truncate` drops its oldest items", frozenset({"", "-1", "0"}), _TOPICS),
    # redelivery, and settings of queues
    Row(_DECLARES, "x-delivery-limit",
        "a setting of the queue does this: `x-queueing#max_failures`", _NONE),
    Row("SUBSCRIBE", "maximumRedeliveries max-delivery-attempts redeliveryDelay redelivery-delay initialRedeliveryDelay"
        " maximumRedeliveryDelay useExponentialBackOff backOffMultiplier redeliveryPolicy",
        "settings of the queue do this: `x-queueing#max_failures`, `x-queueing#backoff_min`, `x-queueing#backoff_max`", _NONE),
    Row(_DECLARES, "x-dead-letter-exchange x-dead-letter-routing-key x-dead-letter-strategy",
        "a setting of the queue does this: `x-queueing#dead_letter_node`", _NONE),
    Row(_DECLARES, "x-message-ttl x-max-age",
        "`ttl` of a SEND does this for its item, and `pubsub#item_expire` for all of a node", _NONE),
    Row(_DECLARES, "x-expires",
        "a queue stays until it is deleted (`pubqueue node delete`)", _NONE),
    Row(_DECLARES, "x-max-length x-max-length-bytes x-overflow",
        "settings of the node do this: `pubsub#max_items`, `x-queueing#max_bytes`, `x-queueing#expired`", _NONE),
    Row(_DECLARES, "x-consumer-timeout",
        "a setting of the queue does this: `x-queueing#lock_timeout`", _NONE),
    Row(_DECLARES, "x-queue-type",
        "a queue has no stream; REST reads the items that a topic keeps from a number on", frozenset({"", "classic", "quorum"})),
    Row("SUBSCRIBE", "x-stream-offset x-stream-filter x-stream-match-unfiltered",
        "there are no streams; REST reads the items that a topic keeps from a number on", _NONE),
    # messages
    Row("SEND", "AMQ_SCHEDULED_CRON AMQ_SCHEDULED_PERIOD AMQ_SCHEDULED_REPEAT AMQ_SCHEDULER_ACTION",
        "a schedule does this, not a header (`pubqueue schedule`)", _ZERO),
    Row("SEND", "retain",
        "a topic keeps its newest items if its settings say so: `pubsub#persist_items`, `pubsub#max_items`", kinds=_TOPICS),
    Row("SEND", "_AMQ_LVQ_NAME",
        "a topic that keeps items keeps the last one of each `item-id`", _NONE),
)
# fmt: on
"""All words that are refused."""


def _table(command: str) -> Mapping[str, Row]:
    found = [row for row in ROWS if command in row.frames.split()]
    return MappingProxyType({word: row for row in found for word in row.words.split()})


REFUSED: Final[Mapping[str, Mapping[str, Row]]] = MappingProxyType(
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
