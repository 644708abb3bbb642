"""Reads requests for a single item without building elements, and messages that carry one (urn:xmpp:qos).

They are recognised in the bytes, by their exact form: what comes before and after the payload by
patterns, the payload itself by expat. Only bytes without any ambiguity are accepted: else `read`
returns None, and `reader`, which understands every form, reads the stanza instead. Both give the
same request; a test compares them.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from pubqueue.faces.xmpp.parse.carrying import Step
from pubqueue.faces.xmpp.stream.single import END_LENGTH, IQ_END, Single, SingleMessage
from pubqueue.faces.xmpp.stream.single_payload import PayloadReader
from pubqueue.faces.xmpp.stream.start_tags import (
    MAX_TAG_LENGTH,
    colons,
    is_usual_message,
    sender_of,
    verb_of,
)
from pubqueue.model.entities import ItemId, NodeName
from pubqueue_xeps.wire import ns

# printable ASCII without the characters that XML may escape: < > & " '
_NAME: Final = rb"[ !#-%(-;=?-~]{1,1023}"


def _quoted(text: str) -> bytes:
    return rb"(?:'%b'|\"%b\")" % ((re.escape(text.encode()),) * 2)


_PARTS: Final = {
    b"id": rb"(?:'(%b)'|\"(%b)\")" % (_NAME, _NAME),
    b"words": b"[^<>]{0,%d}" % MAX_TAG_LENGTH,
    b"pubsub": _quoted(ns.PUBSUB),
    b"qos": _quoted(ns.QOS),
}
# atomic, because no other part of a start tag could be its id
_IQ: Final = rb"(?><iq((?: %(words)b?)?) id=%(id)b((?: %(words)b)?)>)"
_REQUEST: Final = re.compile(
    (
        _IQ + rb"<pubsub xmlns=%(pubsub)b><(publish|retract)( %(words)b)>"
        rb"<item(?: id=%(id)b)?(>|/></retract></pubsub></iq>)"
    )
    % _PARTS
)
_CARRYING: Final = re.compile(
    (
        _IQ + rb"<(?:(acknowledged) xmlns=%(qos)b"
        rb"|(assured|deliver)(?: xmlns=%(qos)b msgId=%(id)b| msgId=%(id)b xmlns=%(qos)b))"
        rb"(?:(/>|></deliver>)</iq>|>)"
    )
    % _PARTS
)
_MESSAGE: Final = re.compile(
    (
        rb"<message(?:((?: %(words)b?)?) id=%(id)b)?((?: %(words)b)?)>"
        rb"<pubsub xmlns=%(pubsub)b><publish( %(words)b)><item(?: id=%(id)b)?>"
    )
    % _PARTS
)
_TAIL: Final = b"</item></publish></pubsub>"
_STEPS: Final = {step.encode(): step for step in Step}
_MESSAGE_TAIL: Final = _TAIL + b"</message>"


class _Tail(NamedTuple):
    """What follows a payload up to the end of its IQ, and how many bytes that is without the end tag of the IQ."""

    tail: bytes
    before_end: int


def _tail(inner: bytes) -> _Tail:
    return _Tail(inner + IQ_END, len(inner))


_REQUEST_TAIL: Final = _tail(_TAIL)
_CARRIED_TAILS: Final = {
    step: _tail(b"%b</%b>" % (_MESSAGE_TAIL, step.encode()))
    for step in (Step.ACKNOWLEDGED, Step.ASSURED)
}


_Item = tuple[NodeName, ItemId | None, bytes | None, str, str, bool]
_Published = tuple[int, _Item, tuple[str, int, int]]
"""Where the IQ of a message ends, the item, the id of the message, and where in the IQ the message is."""

_NOTHING: Final[_Item] = NodeName(""), None, None, "", "", False


class SingleReader:
    """Reads single items in one stream. `inherited` are the namespaces that the stream declares."""

    def __init__(self, inherited: dict[str, str]) -> None:
        self._payloads = PayloadReader()
        self._usual = inherited.get("") == ns.COMPONENT
        self._prefixes = colons(inherited)

    def read(self, data: bytes, at: int) -> Single | None:
        """Return the request that begins at `at`, if it is complete and in the usual form."""
        head = _REQUEST.match(data, at) if self._usual else None
        if head is None:
            return self._message(data, at) if self._usual else None
        before, id_, quoted_id, behind, name, verb_words, one, other, tail = head.groups()
        publishes = name == b"publish"
        if publishes is not (tail == b">"):
            return None
        payload, end = _cut(data, head.end(), _REQUEST_TAIL) if publishes else (None, head.end())
        sender, verb = sender_of(before, behind), verb_of(verb_words)
        if end < 0 or sender is None or verb is None:
            return None
        raw = data[at:end]
        for prefix in self._prefixes:
            if prefix in raw:
                return None  # the payload that is cut out would have to declare it again
        item = one or other
        space = "" if payload is None else self._payloads.space(payload, verb.prefixes)
        if space is None or (payload is None and item is None):
            return None
        return Single(
            raw,
            end - at,
            sender,
            b' id="' + (id_ or quoted_id) + sender.address,
            verb.node,
            None if item is None else ItemId(item.decode()),
            payload,
            space,
            "" if item is None else verb.answer,
            verb.notify,
        )

    def _message(self, data: bytes, at: int) -> SingleMessage | None:
        """Return the step of a message that begins at `at`, if it is complete and in the usual form."""
        head = _CARRYING.match(data, at)
        if head is None:
            return None
        before, id_, quoted_id, behind, acknowledged, other, *ids, empty = head.groups()
        sender, step = sender_of(before, behind), _STEPS[acknowledged or other]
        if sender is None or (step is Step.DELIVER) is not bool(empty):
            return None
        end = head.end()
        found = (end, _NOTHING, ("", 0, 0)) if empty else self._published(data, at, end, step)
        if found is None:
            return None
        end, published, message = found
        iq_id, msg_id = id_ or quoted_id, next(filter(None, ids), b"")
        address = b' id="' + iq_id + sender.address
        names = step, iq_id.decode(), msg_id.decode()
        return SingleMessage(data[at:end], end - at, sender, address, *published, *names, *message)

    def _published(self, data: bytes, at: int, start: int, step: Step) -> _Published | None:
        """Read the message that begins at `start`, in an IQ that begins at `at`."""
        head = _MESSAGE.match(data, start)
        if head is None:
            return None
        before, id_, quoted_id, behind, verb_words, one, other = head.groups()
        verb = verb_of(verb_words) if is_usual_message(before or b"", behind) else None
        payload, end = _cut(data, head.end(), _CARRIED_TAILS[step])
        if verb is None or payload is None:
            return None
        space = self._payloads.space(payload, verb.prefixes)
        if space is None or any(prefix in data[at:end] for prefix in self._prefixes):
            return None
        item = one or other
        item_id = None if item is None else ItemId(item.decode())
        published = verb.node, item_id, payload, space, "", False
        stop = head.end() + len(payload) + len(_MESSAGE_TAIL)
        return end, published, ((id_ or quoted_id or b"").decode(), start - at, stop - at)


def _cut(data: bytes, start: int, tail: _Tail) -> tuple[bytes | None, int]:
    """Return the payload that begins at `start`, and where the stanza ends; -1 if it does not end with this tail."""
    close = data.find(IQ_END, start)
    stop, end = close - tail.before_end, close + END_LENGTH
    if stop <= start or data[stop:end] != tail.tail:
        return None, -1
    return data[start:stop], end
