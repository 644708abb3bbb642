"""From frames to requests, and from items to MESSAGE frames: destinations, headers, numbers."""

from __future__ import annotations

import re
from enum import Enum, StrEnum, unique
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pubqueue.faces.stomp.codec import V10, V12, Frame
from pubqueue.faces.stomp.refusals import Message, Problem, refused_word
from pubqueue.faces.waiting import THENS, came_for, names_in, then_of
from pubqueue.model.entities import NO_TIME, Draft, ItemId, Millis, NodeName, account_of, seconds
from pubqueue.model.waits import AtDeadline
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.settle import Outcome, Settle, Verb
from pubqueue.rules.waits import Hold, Signal
from pubqueue_xeps.wire.names import ILLEGAL, NOT_CARRIED, joined, listed
from pubqueue_xeps.wire.payloads.content_type import HEADER as CONTENT_TYPE
from pubqueue_xeps.wire.payloads.wrapper import unwrap, wrap

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pubqueue.faces.stomp.codec import Version
    from pubqueue.model.entities import Headers, Principal
    from pubqueue.model.notices import Announce, Deliver


# From a SEND to the published item: the meaning of each header, as one table.

DESTINATION: Final = "destination"
TYPE: Final = "destination-type"
"""Artemis' word for the kind of the node."""
WOKEN: Final = "woken"
"""What has woken an item that was held."""
WAITED: Final = "waited"
"""What has come for it, as JSON."""


class _Wishes(Struct, gc=False):
    """The properties of the item in the headers of a SEND."""

    now: Millis
    id: str = ""
    priority: int = 0
    delay: Millis = NO_TIME
    ttl: Millis | None = None
    group: str = ""


def _id(wishes: _Wishes, text: str) -> None:
    wishes.id = text


def _other_id(wishes: _Wishes, text: str) -> None:
    wishes.id = wishes.id or text


def _priority(wishes: _Wishes, text: str) -> None:
    wishes.priority = whole(text)


def _delay(wishes: _Wishes, text: str) -> None:
    wishes.delay = span(text)


def _delay_in_millis(wishes: _Wishes, text: str) -> None:
    wishes.delay = Millis(count(text))


def _ttl(wishes: _Wishes, text: str) -> None:
    wishes.ttl = span(text)


def _ttl_in_millis(wishes: _Wishes, text: str) -> None:
    wishes.ttl = Millis(count(text))


def _expires(wishes: _Wishes, text: str) -> None:
    moment = count(text)
    wishes.ttl = Millis(max(0, moment - wishes.now)) if moment else None


def _group(wishes: _Wishes, text: str) -> None:
    wishes.group = text


def _moment(wishes: _Wishes, text: str) -> None:
    wishes.delay = Millis(max(0, count(text) - wishes.now))


class _Row(Struct, frozen=True):
    read: Callable[[_Wishes, str], None] | None = None
    """None for a header of the frame itself, or of the server: it cannot be forged."""
    is_kept: bool = False
    """Whether the item has the header too, so that it is delivered as it was sent."""


# fmt: off
ROWS: Final[Mapping[str, _Row]] = MappingProxyType({
    "item-id":              _Row(_id),
    "_AMQ_DUPL_ID":         _Row(_other_id, is_kept=True),
    "priority":             _Row(_priority),
    "delay":                _Row(_delay),
    "x-delay":              _Row(_delay_in_millis),
    "AMQ_SCHEDULED_DELAY":  _Row(_delay_in_millis),
    "AMQ_SCHEDULED_TIME":   _Row(_moment),
    "_AMQ_SCHED_DELIVERY":  _Row(_moment),
    "ttl":                  _Row(_ttl),
    "expiration":           _Row(_ttl_in_millis),
    "expires":              _Row(_expires),
    "group":                _Row(_group),
    "JMSXGroupID":          _Row(_group, is_kept=True),
    "_AMQ_GROUP_ID":        _Row(_group, is_kept=True),
    "message_group":        _Row(_group, is_kept=True),
    # the frame's own
    DESTINATION:            _Row(),
    "receipt":              _Row(),
    "transaction":          _Row(),
    "content-length":       _Row(),
    TYPE:                   _Row(),
    CONTENT_TYPE:           _Row(),
    # the server's
    "message-id":           _Row(),
    "subscription":         _Row(),
    "ack":                  _Row(),
    "redelivered":          _Row(),
    "delivery-attempt":     _Row(),
    "failed":               _Row(),
    "publisher":            _Row(),
    "published":            _Row(),
    "deadline":             _Row(),
    NOT_CARRIED:            _Row(),
    WOKEN:                  _Row(),
    WAITED:                 _Row(),
})
# fmt: on
"""Headers with a meaning here; every other is a header of the item (XEP-0131), unless it is refused (`refusals`)."""

OWN: Final = frozenset(name for name, row in ROWS.items() if not row.is_kept)
"""Headers that no item has, so that in a MESSAGE they are the server's."""

_OF_QUEUES: Final = ("priority", "delay", "group")


class Sent(Struct, frozen=True, gc=False):
    """The publish of a SEND."""

    node: str
    kind: DestinationKind
    draft: Draft


def sent(frame: Frame, new_id: Callable[[], str], now: Millis) -> Sent | Problem:
    """Return the publish of a SEND; without `item-id` under a new id."""
    to = destination_in(frame.headers, TYPE)
    if isinstance(to, Problem):
        return to
    if (problem := refused_word("SEND", frame.headers, WAYS[to.kind])) is not None:
        return problem
    wishes, kept = _Wishes(now), []
    for name, value in frame.headers.items():
        row = ROWS.get(name)
        if row is not None:
            try:
                if row.read is not None:
                    row.read(wishes, value)
            except BadNumberError as problem:
                return Problem(Message.BAD_HEADER, f"{name} has to be {problem}")
            if not row.is_kept:
                continue
        if ILLEGAL.search(name) or ILLEGAL.search(value):
            return Problem(Message.BAD_HEADER, f"{name!a} has a character that XML has not")
        kept.append((name, value))
    if to.kind is DestinationKind.TOPIC and (wishes.priority or wishes.delay or wishes.group):
        return Problem(Message.NOT_SUPPORTED, f"{', '.join(_OF_QUEUES)} apply only to queues")
    return _published(frame, to, wishes, kept, new_id)


def _published(
    frame: Frame,
    to: Destination,
    wishes: _Wishes,
    kept: list[tuple[str, str]],
    new_id: Callable[[], str],
) -> Sent | Problem:
    try:
        wrapped = wrap(frame.body, frame.headers.get(CONTENT_TYPE), is_text=True)
    except ValueError as problem:
        return Problem(Message.BAD_HEADER, f"{problem}")
    if wrapped.header is not None:
        kept.append((CONTENT_TYPE, wrapped.header))
    if not to.is_usual:
        kept.append((DESTINATION, to.text))
    draft = Draft(
        *(ItemId(wishes.id or new_id()), wrapped.xml, wishes.priority, wishes.delay, wishes.ttl),
        headers=tuple(kept),
        type=wrapped.space,
        group=wishes.group,
    )
    return Sent(to.node, to.kind, draft)


# A SEND to the destination of the signals of a queue: the body is the data, and nothing is published.

SIGNALS: Final = "/signal/"
"""The prefix of a destination that takes signals to the items of a queue."""

_OF_SIGNALS: Final = frozenset({"item-id", "signal", "signal-id"})


def signal_of(frame: Frame, by: Principal, new_id: Callable[[], str]) -> Signal | Problem:
    """Return the signal of a SEND; without `signal-id` it is another one each time."""
    headers = frame.headers
    for name in ("item-id", "signal"):
        if not headers.get(name):
            return Problem(Message.HEADER_MISSING, f"a signal has to have a header {name}")
    if (problem := refused_word("SEND", headers, WAYS[DestinationKind.QUEUE])) is not None:
        return problem
    for name in headers:
        if (row := ROWS.get(name)) and row.read is not None and name not in _OF_SIGNALS:
            return Problem(Message.NOT_SUPPORTED, f"{name}: a signal is no message, and has none")
    try:
        data = frame.body.decode()
    except UnicodeDecodeError:
        return Problem(Message.BODY_NOT_ACCEPTED, "the data of a signal is a text in UTF-8")
    node = NodeName(headers[DESTINATION].removeprefix(SIGNALS))
    name, id_ = headers["signal"], headers.get("signal-id") or new_id()
    return Signal(by, node, ItemId(headers["item-id"]), name, data, id_)


# Destinations: which node each names, and the required kind of that node.


@unique
class DestinationKind(Enum):
    """The required kind of the node."""

    __hash__ = object.__hash__  # an enumeration's own is a call in Python

    QUEUE = "queue"
    TOPIC = "topic"
    """A plain node: all its subscribers are notified."""
    EITHER = "either"


WAYS: Final[Mapping[DestinationKind, tuple[bool, ...]]] = MappingProxyType(
    {
        DestinationKind.QUEUE: (True,),
        DestinationKind.TOPIC: (False,),
        DestinationKind.EITHER: (True, False),
    }
)
"""Whether the node is a queue; if the client names neither kind, it may be either."""

PREFIXES: Final = (
    ("/queue/", DestinationKind.QUEUE),
    ("/amq/queue/", DestinationKind.QUEUE),  # RabbitMQ's
    ("./", DestinationKind.QUEUE),  # Curb's
    ("/topic/", DestinationKind.TOPIC),
)
"""The prefixes of destinations. The rest is the node, literally: nothing is decoded, and there are no wildcards."""

USUAL: Final[Mapping[bool, str]] = MappingProxyType({True: "/queue/", False: "/topic/"})
"""The form of a destination, by whether it is a queue."""

OPTIONS: Final[Mapping[DestinationKind, Settings | None]] = MappingProxyType(
    {
        DestinationKind.QUEUE: Settings({"queueing": True}),
        DestinationKind.TOPIC: Settings({"queueing": False}),
        DestinationKind.EITHER: None,
    }
)
"""The publish-options of a SEND: a node of the other kind is refused, and one that is created by a publish is of this kind."""

MAX_KEPT: Final = 1024
"""Destinations that are remembered, of up to a header line each."""


class Destination(Struct, frozen=True):
    """A node, as a client names it."""

    node: NodeName
    kind: DestinationKind
    text: str

    @property
    def is_usual(self) -> bool:
        """Whether it is written in our form; otherwise the item has it as a header."""
        return self.text.startswith(tuple(USUAL.values()))


@lru_cache(maxsize=MAX_KEPT)
def destination_of(text: str) -> Destination | Problem:
    """Return the node in a header `destination`. No other name begins with a slash."""
    prefix, kind = next(
        (row for row in PREFIXES if text.startswith(row[0])), ("", DestinationKind.EITHER)
    )
    name = text[len(prefix) :]
    if not name or (not prefix and name.startswith("/")):
        known = ", ".join(one for one, _ in PREFIXES)
        return Problem(Message.NO_SUCH_KIND, f"a destination begins with {known} or is a name")
    return Destination(NodeName(name), kind, text)


_TYPES: Final = MappingProxyType(
    {"ANYCAST": DestinationKind.QUEUE, "MULTICAST": DestinationKind.TOPIC}
)


def destination_in(headers: Mapping[str, str], word: str) -> Destination | Problem:
    """Return the node in the headers of a frame; in `word` the client may name its kind as Artemis has it."""
    to, named = destination_of(headers[DESTINATION]), headers.get(word)
    if named is None or isinstance(to, Problem):
        return to
    kind = _TYPES.get(named.upper())
    if kind is None:
        return Problem(Message.BAD_HEADER, f"{word} has to be {' or '.join(_TYPES)}")
    if to.kind not in {kind, DestinationKind.EITHER}:
        return Problem(Message.BAD_HEADER, f"{word} contradicts the destination")
    return Destination(to.node, kind, to.text)


def shown(node: NodeName, *, is_queue: bool) -> str:
    """Return the destination of a node."""
    return USUAL[is_queue] + node


# From an item to its MESSAGE: the server's headers first, then those of the publisher.
#
# Of a repeated header the first counts (1.2, "Repeated Header Entries"), so a publisher cannot forge one of the
# server's.

SERVERS: Final = frozenset(
    {
        *("subscription", "message-id", DESTINATION, "ack", "content-length", CONTENT_TYPE),
        *("item-id", "redelivered", "delivery-attempt", "failed"),
        *("publisher", "published", "deadline", "priority", "group", NOT_CARRIED, WOKEN, WAITED),
    }
)
"""Headers that a publisher's cannot replace."""

OF_FRAMES: Final = frozenset({"receipt", "transaction"})
"""Headers that mean something in each frame of a client: one that copies all of a MESSAGE into its ACK would say what a publisher wants."""


def message_id(node: NodeName, item: ItemId) -> str:
    """Return the header `message-id`: the same for each delivery of the item, and of no other item."""
    return joined(node, item)


def beginning_of(node: NodeName) -> str:
    """Return the beginning of the `message-id` of each item of a node."""
    return joined(node, "")


def of_delivery(notice: Deliver, subscription: str, ack: str | None) -> Frame:
    """Return the MESSAGE of an item of a queue; `ack` is None if no acknowledgement is needed."""
    item = notice.item
    headers, body = _begun(
        *(subscription, item.node, item.id, item.headers),
        payload=notice.payload,
        ack=ack,
        is_queue=True,
    )
    if item.acquired > 1:
        headers["redelivered"] = "true"
        headers["delivery-attempt"] = f"{item.acquired}"
    if item.failed:
        headers["failed"] = f"{item.failed}"
    headers["publisher"] = account_of(item.publisher)
    headers["published"] = f"{item.published}"
    if item.deadline is not None:
        headers["deadline"] = f"{item.deadline}"
    if item.priority:
        headers["priority"] = f"{item.priority}"
    if item.group:
        headers["group"] = item.group
    if item.wait is not None:
        if item.wait.woken is not None:
            headers[WOKEN] = item.wait.woken.value
        headers[WAITED] = came_for(item.wait)
    if item.headers:
        _add(headers, item.headers)
    return Frame("MESSAGE", headers, body)


def of_news(notice: Announce, subscription: str, ack: str | None, number: int) -> Frame:
    """Return the MESSAGE of a notice of a topic; `number` is its number here, for notices without an item."""
    draft = notice.draft
    if draft is None:
        # an item's has a slash
        found = {"subscription": subscription, "message-id": f"{number}"}
        return Frame("MESSAGE", {**found, DESTINATION: shown(notice.node, is_queue=False)})
    headers, body = _begun(
        *(subscription, notice.node, draft.id, draft.headers),
        payload=draft.payload,
        ack=ack,
        is_queue=False,
    )
    if notice.publisher is not None:
        headers["publisher"] = account_of(notice.publisher)
    if notice.late is not None:
        headers["published"] = f"{notice.late}"
    if draft.headers:
        _add(headers, draft.headers)
    return Frame("MESSAGE", headers, body)


def _begun(
    subscription: str,
    node: NodeName,
    item: ItemId,
    given: Headers,
    *,
    payload: bytes,
    ack: str | None,
    is_queue: bool,
) -> tuple[dict[str, str], bytes]:
    """Return the first headers, and the body."""
    mine = dict(given) if given else {}
    headers = {
        "subscription": subscription,
        "message-id": message_id(node, item),
        DESTINATION: mine.get(DESTINATION) or shown(node, is_queue=is_queue),
    }
    if ack is not None:
        headers["ack"] = ack
    data = b""
    if payload:
        body = unwrap(payload, mine.get(CONTENT_TYPE))
        data = body.data
        if body.type is not None:
            headers[CONTENT_TYPE] = body.type
    headers["item-id"] = item
    return headers, data


def _add(headers: dict[str, str], given: Headers) -> None:
    """Add the publisher's headers, in their order; of a repeated one the first. Those that cannot be here are named."""
    left_out = []
    for name, value in given:
        if name in SERVERS or name in OF_FRAMES:
            if headers.get(name) != value:
                left_out.append(name)
        elif name:
            headers.setdefault(name, value)
    if left_out:
        headers[NOT_CARRIED] = listed(left_out)


# Numbers in headers.

_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,15}", re.ASCII)
_SECONDS: Final = re.compile(r"[0-9]{1,12}(\.[0-9]{1,9})?", re.ASCII)


class BadNumberError(ValueError):
    """The text is not such a number."""


def whole(text: str) -> int:
    """Return a whole number.

    Raises:
        BadNumberError: it is invalid.

    """
    if not _WHOLE.fullmatch(text):
        raise BadNumberError("a whole number")
    return int(text)


def count(text: str) -> int:
    """Return a whole number that is not below 0.

    Raises:
        BadNumberError: it is invalid.

    """
    number = whole(text)
    if number < 0:
        raise BadNumberError("a whole number from 0")
    return number


def span(text: str) -> Millis:
    """Return a span that is written in seconds.

    Raises:
        BadNumberError: it is invalid.

    """
    if not _SECONDS.fullmatch(text):
        raise BadNumberError("a number of seconds")
    return seconds(float(text))


# The request of an ACK or a NACK.

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


HOLD: Final = "hold"
"""The outcome of an attempt after which the item waits."""

_OUTCOMES: Final = ", ".join([*(outcome.value for outcome in Outcome), HOLD])

_OF_HOLDS: Final = ("signals", "within", "then", "carry")
"""Headers of a NACK that say what the item waits for, and what it carries."""

_OF_RETURNS: Final = ("delay", "reason", "requeue")
"""Headers of a NACK that a hold cannot have."""

_WORKERS: Final = frozenset({"outcome", "seconds", *_OF_HOLDS, *_OF_RETURNS})
"""Headers by which a worker says how its attempt has ended, or how much time it needs."""

Copied = tuple[int, ...]
"""Hashes of the headers of a message that have a worker's words and are its publisher's. Clients copy all of a MESSAGE into their NACK, and
mean nothing by it. They are kept as long as the message is in flight, so not the values, which may be long.
"""

NONE_COPIED: Final[Copied] = ()


def copied_from(given: Headers) -> Copied:
    """Return those among the publisher's headers of an item; of a repeated one the first is in the MESSAGE."""
    if not given or not any(name in _WORKERS for name, _ in given):
        return NONE_COPIED
    first = dict(reversed(given))
    return tuple(hash((name, first[name])) for name in _WORKERS if name in first)


def own_words(headers: Mapping[str, str], copied: Copied) -> Mapping[str, str]:
    """Return the headers of a worker's frame without those that it has copied."""
    if not copied:
        return headers
    return {name: value for name, value in headers.items() if hash((name, value)) not in copied}


def settle_of(
    frame: Frame, by: Principal, node: NodeName, copied: Copied = NONE_COPIED
) -> Settle | Hold | Problem:
    """Return the settle for a message of the node, or the hold: the caller adds its id and its lock."""
    if frame.command == "ACK":
        return Settle(by, node, (), Verb.RETRACT, quiet=True)
    headers = own_words(frame.headers, copied)
    if headers.get("outcome") == HOLD:
        return _hold_of(headers, by, node)
    if (name := next((one for one in _OF_HOLDS if one in headers), None)) is not None:
        return Problem(Message.BAD_HEADER, f"{name} is for outcome:{HOLD}")
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
    return Settle(
        by, node, (), Verb.UNLOCK, outcome=outcome, delay=delay, reason=reason, quiet=True
    )


def _hold_of(headers: Mapping[str, str], by: Principal, node: NodeName) -> Hold | Problem:
    if (name := next((one for one in _OF_RETURNS if one in headers), None)) is not None:
        return Problem(Message.BAD_HEADER, f"{name} is not for outcome:{HOLD}")
    names = names_in(headers["signals"]) if "signals" in headers else ()
    if names is None:
        return Problem(Message.BAD_HEADER, "signals has to be a list of names in JSON")
    then = then_of(headers.get("then", AtDeadline.DELIVER.value))
    if then is None:
        return Problem(Message.BAD_HEADER, f"then has to be one of {THENS}")
    try:
        within = span(headers["within"]) if "within" in headers else None
    except BadNumberError as problem:
        return Problem(Message.BAD_HEADER, f"within has to be {problem}")
    return Hold(by, node, ItemId(""), names, within, then, headers.get("carry"))


def _outcome(headers: Mapping[str, str]) -> Outcome | None:
    """Return how the attempt has ended: it failed, unless the headers define another outcome."""
    if headers.get("requeue") == "false":  # RabbitMQ's
        return Outcome.REJECT
    try:
        return Outcome(headers.get("outcome", Outcome.FAILED.value))
    except ValueError:
        return None


# The request of a SUBSCRIBE: how messages are acknowledged, and how many may be in flight.

MAX_WINDOW: Final = 10**9
"""Requests the maximum of the queue: larger values are reduced to it."""


@unique
class Mode(StrEnum):
    """The header `ack`."""

    AUTO = "auto"
    """A message is done when it has been sent."""
    CLIENT = "client"
    """An ACK applies to all messages up to that one."""
    INDIVIDUAL = "client-individual"


_MODES: Final[Mapping[str, Mode]] = MappingProxyType({mode.value: mode for mode in Mode})
"""All modes, in each version: 1.0 does not have the last, but clients ask for it, and brokers give it."""

WINDOWS: Final[Mapping[Mode, int]] = MappingProxyType(
    {Mode.AUTO: 100, Mode.CLIENT: 100, Mode.INDIVIDUAL: 1}
)
"""How many messages are in flight by default. With one, a client that acknowledges every tenth message would wait without end."""

_WINDOW: Final = ("prefetch-count", "activemq.prefetchSize", "credit")
"""RabbitMQ's, ActiveMQ's and Apollo's words."""

_BYTES: Final = "consumer-window-size"
"""Artemis' word, in bytes; 0 there means one by one."""


class Wanted(Struct, frozen=True):
    """A requested subscription."""

    id: str
    destination: Destination
    mode: Mode
    window: int


def wanted(headers: Mapping[str, str], version: Version) -> Wanted | Problem:
    """Return the request of a SUBSCRIBE."""
    to = destination_in(headers, "subscription-type")
    if isinstance(to, Problem):
        return to
    if (problem := refused_word("SUBSCRIBE", headers, WAYS[to.kind])) is not None:
        return problem
    if (mode := _MODES.get(headers.get("ack", Mode.AUTO))) is None:
        return Problem(Message.BAD_HEADER, f"ack has to be {', '.join(_MODES)}")
    window = window_of(headers, mode)
    if isinstance(window, Problem):
        return window
    return Wanted(id_of(headers, version) or to.text, to, mode, window)


def id_of(headers: Mapping[str, str], version: Version) -> str | None:
    """Return the id of a subscription; in 1.0 it may be missing, and is the destination then."""
    found = headers.get("id")
    return headers.get("destination") if found is None and version is V10 else found


def window_of(headers: Mapping[str, str], mode: Mode) -> int | Problem:
    """Return how many messages may be in flight; 0 means the maximum."""
    for name in (*_WINDOW, _BYTES):
        if name not in headers:
            continue
        try:
            asked = count(headers[name])
        except BadNumberError as problem:
            return Problem(Message.BAD_HEADER, f"{name} has to be {problem}")
        if name == _BYTES:
            one = Problem(
                Message.NOT_SUPPORTED, f"{name}: a window is counted in messages; use {_WINDOW[0]}"
            )
            return one if asked else 1
        return min(asked, MAX_WINDOW) or MAX_WINDOW
    return WINDOWS[mode]
