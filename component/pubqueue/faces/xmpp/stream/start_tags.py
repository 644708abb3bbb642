"""Start tags of requests that are read without building elements. What they mean is cached, because they repeat."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from xml.parsers import expat

from msgspec import Struct

from pubqueue.faces.xmpp.parse.carrying import MESSAGES
from pubqueue.faces.xmpp.parse.publishing import ANSWER
from pubqueue.faces.xmpp.remembering import remembered
from pubqueue.faces.xmpp.xml.text import attribute
from pubqueue.model.entities import Jid, NodeName, domain_of

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_TAG_LENGTH: Final = 512
"""Bytes of a start tag whose meaning is cached."""

SENDERS: Final = 2 << 20
WORDS: Final = 1 << 20
"""Bytes of each cache: of senders, of verbs, of messages, and of first tags, including the texts they were read from."""

_ROOT_NAME: Final = re.compile(rb"<([^\s/<>]+)")


class Sender(Struct, frozen=True, gc=False):
    """The sender and addressee of a stanza, the same for all of a sender's stanzas."""

    jid: Jid
    to: str
    address: bytes
    """The attributes of a reply, from the quote after its id."""


class Verb(Struct, frozen=True, gc=False):
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
def verb_of(words: bytes) -> Verb | None:
    """Read the attributes of publish or retract."""
    tag = _start_tag(b"<verb%b/>" % words)
    if tag is None or "" in tag.declared:
        return None
    node = tag.attributes.get("node")
    if node is None:
        return None
    return Verb(
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
