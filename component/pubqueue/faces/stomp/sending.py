"""From a SEND to the published item: the meaning of each header, as one table."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pubqueue.faces.stomp.destinations import DestinationKind, destination_of
from pubqueue.faces.stomp.numbers import BadNumberError, count, span, whole
from pubqueue.faces.stomp.problems import Message, Problem
from pubqueue.model.entities import NO_TIME, Draft, ItemId, Millis
from pubqueue_xeps.wire.payloads.content_type import HEADER as CONTENT_TYPE
from pubqueue_xeps.wire.payloads.wrapper import wrap
from pubqueue_xeps.wire.xml_escape import ILLEGAL

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pubqueue.faces.stomp.codec import Frame

DESTINATION: Final = "destination"


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


def _nothing(_wishes: _Wishes, _text: str) -> None:
    """Leave out headers of the frame itself, or of the server: they cannot be forged."""


def _refused(_wishes: _Wishes, _text: str) -> None:
    raise BadNumberError


class _Row(Struct, frozen=True):
    read: Callable[[_Wishes, str], None]
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
    "ttl":                  _Row(_ttl),
    "expiration":           _Row(_ttl_in_millis),
    "expires":              _Row(_expires),
    "group":                _Row(_group),
    "JMSXGroupID":          _Row(_group, is_kept=True),
    # the frame's own
    DESTINATION:            _Row(_nothing),
    "receipt":              _Row(_nothing),
    "transaction":          _Row(_nothing),
    "content-length":       _Row(_nothing),
    CONTENT_TYPE:           _Row(_nothing),
    # the server's
    "message-id":           _Row(_nothing),
    "subscription":         _Row(_nothing),
    "ack":                  _Row(_nothing),
    "redelivered":          _Row(_nothing),
    "delivery-attempt":     _Row(_nothing),
    "failed":               _Row(_nothing),
    "publisher":            _Row(_nothing),
    "published":            _Row(_nothing),
    "deadline":             _Row(_nothing),
    # not supported
    "AMQ_SCHEDULED_CRON":   _Row(_refused),
    "AMQ_SCHEDULED_PERIOD": _Row(_refused),
    "AMQ_SCHEDULED_REPEAT": _Row(_refused),
})
# fmt: on
"""Headers with a meaning here; every other is a header of the item (XEP-0131)."""

OWN: Final = frozenset(name for name, row in ROWS.items() if not row.is_kept)
"""Headers that no item has, so that in a MESSAGE they are the server's."""

_OF_QUEUES: Final = ("priority", "delay", "group")


class Sent(Struct, frozen=True, gc=False):
    """The publish of a SEND; `has_id` means that the client has chosen the id."""

    node: str
    kind: DestinationKind
    draft: Draft
    has_id: bool


def sent(frame: Frame, new_id: Callable[[], str], now: Millis) -> Sent | Problem:
    """Return the publish of a SEND; without `item-id` under a new id."""
    to = destination_of(frame.headers[DESTINATION])
    if isinstance(to, Problem):
        return to
    wishes, kept = _Wishes(now), []
    for name, value in frame.headers.items():
        row = ROWS.get(name)
        if row is not None:
            try:
                row.read(wishes, value)
            except BadNumberError as problem:
                return _bad(name, row, problem)
            if not row.is_kept:
                continue
        if ILLEGAL.search(name) or ILLEGAL.search(value):
            return Problem(Message.BAD_HEADER, f"{name!a} has a character that XML has not")
        kept.append((name, value))
    if to.kind is DestinationKind.TOPIC and (wishes.priority or wishes.delay or wishes.group):
        return Problem(Message.NOT_SUPPORTED, f"{', '.join(_OF_QUEUES)} apply only to queues")
    return _published(frame, wishes, kept, new_id)


def _bad(name: str, row: _Row, problem: BadNumberError) -> Problem:
    if row.read is _refused:
        return Problem(Message.NOT_SUPPORTED, f"{name}: a schedule does this, not a header")
    return Problem(Message.BAD_HEADER, f"{name} has to be {problem}")


def _published(
    frame: Frame, wishes: _Wishes, kept: list[tuple[str, str]], new_id: Callable[[], str]
) -> Sent | Problem:
    to = destination_of(frame.headers[DESTINATION])
    assert not isinstance(to, Problem)
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
    return Sent(to.node, to.kind, draft, bool(wishes.id))
