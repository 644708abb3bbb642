"""Requests for a single item, read without building elements: nearly all requests on a busy day.

A publish of one item and a retract of one are recognised in the bytes, by their exact form: what
comes before and after the payload by patterns, the payload itself by expat. Only bytes without any
ambiguity are accepted: else `read` returns None, and `reader`, which understands every form, reads
the stanza instead. Both give the same request; a test compares them.

Why the payload is cut correctly: its first tag opens the root element, the name after the first
`</` of that name is the end of the payload, and expat has found no fault, comment, CDATA section or
processing instruction in an element of ours around it. So that end tag closes that root, nothing is
left open, and the tail that follows is the stanza's own.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, final
from xml.parsers import expat

from msgspec import Struct

from pubqueue.core.addresses import domain_of
from pubqueue.core.model import Draft, ItemId, Jid, NodeName
from pubqueue.core.queue.publication import Publish
from pubqueue.core.queue.settle import Settle, Verb
from pubqueue.faces.xmpp.parse.publishing import ANSWER
from pubqueue.faces.xmpp.remembering import remembered
from pubqueue.faces.xmpp.stream.passed_over import MAX_BENEATH, MAX_NAMESPACE_LENGTH, long_namespace
from pubqueue.faces.xmpp.xml.payload import DEEPEST
from pubqueue.faces.xmpp.xml.text import attribute, echo
from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pubqueue.core.model import Principal

RENEWED_AFTER: Final = 1 << 18
"""Bytes after which the payloads' expat is replaced; it keeps every name that it has met."""

MAX_PAYLOAD_BYTES: Final = 1 << 18
"""Bytes of a payload that is read here."""

MAX_TAG_LENGTH: Final = 512
"""Bytes of a start tag whose meaning is cached."""

SENDERS: Final = 2 << 20
WORDS: Final = 1 << 20
"""Bytes of each cache: of senders, of verbs, and of first tags, including the texts they were read from."""

SHALLOW: Final = 7 * DEEPEST
"""Bytes of a payload that cannot be too deep: a level takes seven, `<a></a>`."""

# printable ASCII without the characters that XML may escape: < > & " '
_NAME: Final = rb"[ !#-%(-;=?-~]{1,1023}"
_QUOTED: Final = rb"(?:'(%b)'|\"(%b)\")" % (_NAME, _NAME)
_HEAD: Final = re.compile(
    rb"<iq((?: %(words)b?)?) id=%(id)b((?: %(words)b)?)>"
    rb"<pubsub xmlns=(?:'%(ns)b'|\"%(ns)b\")>"
    rb"<(publish|retract)( %(words)b)>"
    rb"<item(?: id=%(id)b)?(>|/></retract></pubsub></iq>)"
    % {
        b"ns": re.escape(ns.PUBSUB.encode()),
        b"id": _QUOTED,
        b"words": b"[^<>]{0,%d}" % MAX_TAG_LENGTH,
    }
)
_END: Final = b"</iq>"
_PUBLISH_TAIL: Final = b"</item></publish></pubsub></iq>"
_TAIL_LENGTH: Final = len(_PUBLISH_TAIL)
_BEFORE_END: Final = _TAIL_LENGTH - len(_END)
_ROOT_NAME: Final = re.compile(rb"<([^\s/<>]+)")


class Sender(Struct, frozen=True, gc=False):
    """The sender and addressee of a stanza, the same for all of a sender's stanzas."""

    jid: Jid
    to: str
    address: bytes
    """The attributes of a reply, from the quote after its id."""


class _Verb(Struct, frozen=True, gc=False):
    """The attributes of a publish or retract."""

    node: NodeName
    answer: str
    notify: bool
    prefixes: tuple[bytes, ...]


@final
class Single(Struct, frozen=True, gc=False):
    """A publish or a retract of one item, with what its answer needs. A retract has no payload."""

    raw: bytes
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

    def echo(self) -> bytes:
        """Return the child of the IQ, for an error to repeat."""
        return echo(self.raw[self.raw.index(b">") + 1 : -len(_END)], "pubsub", ns.PUBSUB)


class _Prover:
    """Proves that a payload is well-formed: a root element that is never closed, and each payload in an element of its own.

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

    def proves(self, payload: bytes) -> bool:
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


class SingleReader:
    """Reads single items in one stream. `inherited` are the namespaces that the stream declares."""

    def __init__(self, inherited: dict[str, str]) -> None:
        self._prover = _Prover()
        self._usual = inherited.get("") == ns.COMPONENT
        self._prefixes = _colons(inherited)

    def read(self, data: bytes, at: int) -> Single | None:
        """Return the request that begins at `at`, if it is complete and in the usual form."""
        head = _HEAD.match(data, at) if self._usual else None
        if head is None:
            return None
        before, id_, quoted_id, behind, name, verb_words, one, other, tail = head.groups()
        publishes = name == b"publish"
        if publishes is not (tail == b">"):
            return None
        payload, end = _cut(data, head.end()) if publishes else (None, head.end())
        sender, verb = sender_of(before, behind), _verb(verb_words)
        if end < 0 or sender is None or verb is None:
            return None
        raw = data[at:end]
        for prefix in self._prefixes:
            if prefix in raw:
                return None  # the payload that is cut out would have to declare it again
        item = one or other
        space = "" if payload is None else self._space(payload, verb.prefixes)
        if space is None or (payload is None and item is None):
            return None
        return Single(
            raw,
            sender,
            b' id="' + (id_ or quoted_id) + sender.address,
            verb.node,
            None if item is None else ItemId(item.decode()),
            payload,
            space,
            "" if item is None else verb.answer,
            verb.notify,
        )

    def _space(self, payload: bytes, prefixes: tuple[bytes, ...]) -> str | None:
        """Return the namespace of the payload's root element, or None if there is any doubt."""
        size, tag_size = len(payload), payload.find(b">") + 1
        tag = payload[:tag_size]
        root = _root(tag) if tag_size <= MAX_TAG_LENGTH else None
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
        return space if self._prover.proves(payload) else None


def _cut(data: bytes, start: int) -> tuple[bytes | None, int]:
    """Return the payload that begins at `start`, and where the stanza ends; -1 if its end is not that of a publish."""
    stop = data.find(_END, start) - _BEFORE_END
    end = stop + _TAIL_LENGTH
    if stop <= start or data[stop:end] != _PUBLISH_TAIL:
        return None, -1
    return data[start:stop], end


def _colons(prefixes: Iterable[str]) -> tuple[bytes, ...]:
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
def _verb(words: bytes) -> _Verb | None:
    """Read the attributes of publish or retract."""
    tag = _start_tag(b"<verb%b/>" % words)
    if tag is None or "" in tag.declared:
        return None
    node = tag.attributes.get("node")
    if node is None:
        return None
    return _Verb(
        NodeName(node),
        tag.attributes.get(ANSWER, ""),
        tag.attributes.get("notify") in {"1", "true"},
        _colons(tag.declared),
    )


@remembered(WORDS)
def _root(tag: bytes) -> tuple[str, bytes | None] | None:
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
