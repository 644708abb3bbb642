"""Requests for a single item, read without building elements."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, ParamSpec, TypeVar, final
from xml.parsers import expat

from msgspec import Struct

from pubqueue.faces.xmpp.parse.iq import MESSAGES, Step, beyond_words
from pubqueue.faces.xmpp.parse.queue import ANSWER
from pubqueue.faces.xmpp.stream.expat import MAX_BENEATH, MAX_NAMESPACE_LENGTH, long_namespace
from pubqueue.faces.xmpp.xml.payload import DEEPEST
from pubqueue.faces.xmpp.xml.stanza import Element, attribute, echo
from pubqueue.model.entities import Draft, ItemId, Jid, NodeName, domain_of
from pubqueue.rules.publication import Publish
from pubqueue.rules.settle import Settle, Verb
from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pubqueue.model.entities import Principal


# Requests that are read without building elements: nearly all requests on a busy day.
#
# They are a publish or a retract of one item, a publish of one item in a message that an IQ carries (urn:xmpp:qos), and the
# request to deliver a kept message. `single_reader` reads them.

COST: Final = 20e-6
COST_OF_A_BYTE: Final = 15e-9
"""Seconds that such a request counts if it is refused, in all and for each byte: about its true cost, which would take as long to measure."""

IQ_END: Final = b"</iq>"
END_LENGTH: Final = len(IQ_END)


class Single(Struct, frozen=True, gc=False):
    """A publish or a retract of one item, with what its answer needs. A retract has no payload."""

    raw: bytes
    length: int
    """The bytes of `raw`."""
    sender: Sender
    address: bytes
    """The attributes of a reply: the request's id, from and to swapped (RFC 6120 8.2.3)."""
    node: NodeName
    item: ItemId | None
    payload: bytes | None
    space: str
    answer: str
    notify: bool

    def request(self, by: Principal, new_id: Callable[[], str]) -> Publish | Settle:
        """Return the request; an item without an id gets a new one."""
        item = ItemId(new_id()) if self.item is None else self.item
        if self.payload is None:
            return Settle(by, self.node, (item,), Verb.RETRACT, self.notify)
        return Publish(by, self.node, (Draft(item, self.payload, type=self.space),))

    @property
    def cost(self) -> float:
        """Seconds that it counts if it is refused."""
        return COST + COST_OF_A_BYTE * self.length

    def echo(self) -> bytes:
        """Return the child of the IQ, for an error to repeat."""
        return self._child("pubsub", ns.PUBSUB)

    def _child(self, name: str, namespace: str) -> bytes:
        return echo(self.raw[self.raw.index(b">") + 1 : -END_LENGTH], name, namespace)


@final
class SingleMessage(Single, frozen=True, gc=False):
    """A step of a message that publishes one item, with what its answer needs; to deliver one, there is no item.

    `start` and `stop` are where the message is in the bytes of the IQ.
    """

    step: Step
    iq_id: str
    msg_id: str = ""
    message_id: str = ""
    start: int = 0
    stop: int = 0

    def publish(self, by: Principal, new_id: Callable[[], str]) -> Publish:
        """Return what the message asks."""
        request = self.request(by, new_id)
        assert isinstance(request, Publish)
        return request

    @property
    def message(self) -> bytes:
        """The bytes of the message."""
        return self.raw[self.start : self.stop]

    @property
    def byte_count(self) -> int:
        """The bytes of memory that it takes."""
        return self.length + len(self.payload or b"")

    def echo(self) -> bytes:
        """Return the child of the IQ, for an error to repeat."""
        return self._child(self.step.value, ns.QOS)


# Caches the results of parsing repeated texts, within a bound of bytes, because clients choose the texts.

P = ParamSpec("P")
R = TypeVar("R")

COPIES: Final = 6
"""The factor from a text's size to that of its entry: the text, its result, and an answer in which each character may be an entity."""

ENTRY: Final = 600
"""Bytes of an entry in addition to its text: the Python objects that it consists of."""


class Remembered(Generic[P, R]):
    """Caches the results of a function of bytes, up to a number of bytes; the oldest are dropped first."""

    def __init__(self, read: Callable[P, R], most: int) -> None:
        self._read = read
        self._most = most
        self._known: dict[tuple[object, ...], R] = {}
        self.byte_count = 0

    def __call__(self, *words: P.args, **none: P.kwargs) -> R:
        """Return the result for these texts."""
        try:
            return self._known[words]
        except KeyError:
            return self._keep(words, self._read(*words, **none))

    def _keep(self, words: tuple[object, ...], meaning: R) -> R:
        self._known[words] = meaning
        self.byte_count += _byte_count(words)
        while self.byte_count > self._most:
            oldest = next(iter(self._known))
            del self._known[oldest]
            self.byte_count -= _byte_count(oldest)
        return meaning

    def forget(self) -> None:
        """Clear the cache."""
        self._known.clear()
        self.byte_count = 0


def remembered(most: int) -> Callable[[Callable[P, R]], Remembered[P, R]]:
    """Cache results of the function, up to about this many bytes, texts included."""
    return lambda read: Remembered(read, most)


def _byte_count(words: tuple[object, ...]) -> int:
    return ENTRY + COPIES * sum(len(part) for part in words if isinstance(part, bytes))


# The payload of a request that is read without building elements: it is cut correctly, or left to `reader`.
#
# Why the payload is cut correctly: its first tag opens the root element, the name after the first
# `</` of that name is the end of the payload, and expat has found no fault, comment, CDATA section or
# processing instruction in an element of ours around it. So that end tag closes that root, nothing is
# left open, and the tail that follows is the stanza's own.

RENEWED_AFTER: Final = 1 << 18
"""Bytes after which the payloads' expat is replaced; it keeps every name that it has met."""

MAX_PAYLOAD_BYTES: Final = 1 << 18
"""Bytes of a payload that is read here."""

SHALLOW: Final = 7 * DEEPEST
"""Bytes of a payload that cannot be too deep: a level takes seven, `<a></a>`."""


class PayloadReader:
    """Reads the namespace of payloads, and proves that they are well-formed.

    Expat reads a root element that is never closed, and each payload in an element of its own.

    The end tag of that element is a fault for expat if the payload has left anything open.
    """

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        strange: list[
            object
        ] = []  # no reference to this object: expat would live until a collection
        parser = expat.ParserCreate(encoding="utf-8", namespace_separator=" ")
        parser.StartCdataSectionHandler = lambda: strange.append(None)
        parser.CommentHandler = strange.append
        parser.ProcessingInstructionHandler = lambda target, _text: strange.append(target)
        parser.Parse(b"<payloads>", False)  # noqa: FBT003  # expat's own signature
        self._expat, self._strange = parser, strange
        self._fed = parser.CurrentByteIndex

    def space(self, payload: bytes, prefixes: tuple[bytes, ...]) -> str | None:
        """Return the namespace of the payload's root element, or None if there is any doubt."""
        size, tag_size = len(payload), payload.find(b">") + 1
        tag = payload[:tag_size]
        root = root_of(tag) if tag_size <= MAX_TAG_LENGTH else None
        if root is None or size > MAX_PAYLOAD_BYTES:
            return None
        space, close = root
        if size != tag_size if close is None else payload.find(close) != size - len(close) - 1:
            return None
        if size > SHALLOW and payload.count(b"</") >= DEEPEST:
            return None  # there may be one more level than there are end tags
        for prefix in prefixes:
            if prefix in payload:
                return None
        if size > 4 * MAX_BENEATH and payload.count(b"<") > MAX_BENEATH:
            return None  # there may be too many of them
        if size > MAX_NAMESPACE_LENGTH and long_namespace(payload) is not None:
            return None
        return space if self._proves(payload) else None

    def _proves(self, payload: bytes) -> bool:
        """Return whether the payload is only elements and text, complete to its last byte."""
        held = b"<p>%b</p>" % payload
        try:
            self._expat.Parse(held, False)  # noqa: FBT003  # expat's own signature
        except expat.ExpatError:
            self._begin()
            return False
        self._fed += len(held)
        good = self._expat.CurrentByteIndex == self._fed and not self._strange
        if not good or self._fed > RENEWED_AFTER:
            self._begin()
        return good


# Start tags of requests that are read without building elements. What they mean is cached, because they repeat.

MAX_TAG_LENGTH: Final = 512
"""Bytes of a start tag whose meaning is cached."""

SENDERS: Final = 2 << 20
WORDS: Final = 1 << 20
"""Bytes of each cache: of senders, of verbs, of messages, and of first tags, including the texts they were read from."""

PUBLISHES: Final = b"publish"
_ROOT_NAME: Final = re.compile(rb"<([^\s/<>]+)")


class Sender(Struct, frozen=True, gc=False):
    """The sender and addressee of a stanza, the same for all of a sender's stanzas."""

    jid: Jid
    to: str
    address: bytes
    """The attributes of a reply, from the quote after its id."""


class VerbTag(Struct, frozen=True, gc=False):
    """The attributes of a publish or retract."""

    node: NodeName
    answer: str
    notify: bool
    prefixes: tuple[bytes, ...]


def colons(prefixes: Iterable[str]) -> tuple[bytes, ...]:
    """Return the prefixes as they stand in names."""
    return tuple(prefix.encode() + b":" for prefix in prefixes if prefix)


@remembered(SENDERS)
def sender_of(before: bytes, behind: bytes) -> Sender | None:
    """Read the attributes of an IQ of type set, those before its id and those after it."""
    first, second = _start_tag(b"<iq%b/>" % before), _start_tag(b"<iq%b/>" % behind)
    if first is None or second is None or first.declared or second.declared:
        return None
    words = first.attributes | second.attributes
    twice = first.attributes.keys() & second.attributes.keys()
    if twice or "id" in words or words.get("type") != "set" or "from" not in words:
        return None
    theirs, mine = words["from"], words.get("to", "")
    if domain_of(Jid(theirs)) == mine:
        return (
            None  # no other server may send in the name of an account of ours: the face refuses it
        )
    address = f'" from="{attribute(mine)}" to="{attribute(theirs)}"'
    return Sender(Jid(theirs), mine, address.encode())


@remembered(WORDS)
def verb_of(name: bytes, words: bytes) -> VerbTag | None:
    """Read the attributes of publish or retract; those that would be ignored or refused are left to `reader`."""
    tag = _start_tag(b"<verb%b/>" % words)
    if tag is None or "" in tag.declared:
        return None
    element = Element(ns.tag(ns.PUBSUB, name.decode()), tag.attributes, 0)
    if beyond_words(element, "set") is not None:
        return None
    node = tag.attributes.get("node")
    if node is None:
        return None
    return VerbTag(
        NodeName(node),
        tag.attributes.get(ANSWER, ""),
        tag.attributes.get("notify") in {"1", "true"},
        colons(tag.declared),
    )


@remembered(WORDS)
def is_usual_message(before: bytes, behind: bytes) -> bool:
    """Return whether a carried message, with these attributes and an id, declares its own namespace and no other, and is not of type error."""
    tag = _start_tag(b"<message%b%b/>" % (before, behind))
    if tag is None or tag.declared.keys() != {""} or "id" in tag.attributes:
        return False
    return tag.name in MESSAGES and tag.attributes.get("type") != "error"


@remembered(WORDS)
def root_of(tag: bytes) -> tuple[str, bytes | None] | None:
    """Return the namespace of a payload's first tag, and what its end tag begins with if it has one.

    It has to declare its own default namespace: an inherited one would have to be written into it.
    """
    name = _ROOT_NAME.match(tag)
    if name is None:
        return None
    empty = tag.endswith(b"/>")
    read = _start_tag(tag if empty else tag + b"</%b>" % name[1])
    if read is None or "" not in read.declared:
        return None
    return read.name.rpartition(" ")[0], None if empty else b"</" + name[1]


class _StartTag:
    """A start tag as expat reads it."""

    def __init__(self) -> None:
        self.name = ""
        self.attributes: dict[str, str] = {}
        self.declared: dict[str, str] = {}

    def on_start(self, name: str, attributes: dict[str, str]) -> None:
        self.name, self.attributes = name, attributes

    def on_namespace(self, prefix: str | None, uri: str | None) -> None:
        self.declared[prefix or ""] = uri or ""


def _start_tag(document: bytes) -> _StartTag | None:
    """Read a document of one tag; return None if it is something else."""
    tag = _StartTag()
    parser = expat.ParserCreate(encoding="utf-8", namespace_separator=" ")
    parser.StartElementHandler = tag.on_start
    parser.StartNamespaceDeclHandler = tag.on_namespace
    try:
        parser.Parse(document, True)  # noqa: FBT003  # expat's own signature
    except expat.ExpatError:
        return None
    return tag


# Reads requests for a single item without building elements, and messages that carry one (urn:xmpp:qos).
#
# They are recognised in the bytes, by their exact form: what comes before and after the payload by
# patterns, the payload itself by expat. Only bytes without any ambiguity are accepted: else `read`
# returns None, and `reader`, which understands every form, reads the stanza instead. Both give the
# same request; a test compares them.

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
        publishes = name == PUBLISHES
        if publishes is not (tail == b">"):
            return None
        payload, end = _cut(data, head.end(), _REQUEST_TAIL) if publishes else (None, head.end())
        sender, verb = sender_of(before, behind), verb_of(name, verb_words)
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
        verb = verb_of(PUBLISHES, verb_words) if is_usual_message(before or b"", behind) else None
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
