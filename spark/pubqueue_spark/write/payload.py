"""Parses a row's XML to check that an XMPP stream may carry it; no other module parses it.

RFC 6120 section 11.1 allows no DTD, comment or processing instruction in a stream, and a server ends the stream for
one. So comments, processing instructions and the XML declaration are removed here, and a DTD is refused before any
entity is defined. The rest is sent unchanged.

expat is in the standard library, so an executor needs no other package.
"""

from __future__ import annotations

import re
from typing import Final
from xml.parsers import expat

from pubqueue_xeps.wire.names import without
from pubqueue_xeps.wire.xml_text import NOT_KEPT, kept, legal

SPACE: Final = re.compile("[\t\n\r]")
NAME: Final = re.compile(rb"<[^\s/>]+")
MAX_STANZA_BYTES: Final = 256 * 1024
"""The maximum size of a stanza that Prosody and ejabberd accept from a client in Debian's configuration, in bytes."""
DEEPEST: Final = 100
"""The maximum depth of nested elements that the pubqueue service accepts."""


def payload(text: str) -> bytes:
    """Return one XML element as it is sent; raise ValueError with the reason if it cannot be.

    An element without namespace stays without one: unless the root declares a default namespace, it
    gets xmlns='' in the stanza, or unprefixed elements would become elements of XEP-0060.
    """
    if not text.strip():
        raise ValueError("the payload is empty; it must be one XML element")
    check_text(text)
    return _Element(text.encode()).sent()


def check_text(text: str) -> None:
    """Raise ValueError for text that is too long for a stanza, or has a character that XML cannot carry."""
    check_length(text)
    legal(text, "the payload")


def check_length(payload: str | bytes | bytearray) -> None:
    """Raise ValueError for a value that is too long for a stanza in any form."""
    if len(payload) > MAX_STANZA_BYTES:
        what = "characters" if isinstance(payload, str) else "bytes"
        raise ValueError(
            f"the payload has {len(payload)} {what}; XMPP servers refuse a stanza of more than"
            f" {MAX_STANZA_BYTES} bytes"
        )


class _Element:
    """Parses a document and records the parts to remove."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._depth = 0
        self._root: int | None = None
        self._needs_namespace = True
        self._cuts: list[tuple[int, bytes]] = []
        # as UTF-8, whatever the XML declaration names: this text was a string
        self._expat = expat.ParserCreate("utf-8", namespace_separator=" ")
        self._expat.StartDoctypeDeclHandler = self._refuse_dtd
        self._expat.StartNamespaceDeclHandler = self._namespace
        self._expat.StartElementHandler = self._start
        self._expat.EndElementHandler = self._end
        # only a reference makes one of these characters: as they are, every parser reads them as the same
        self._has_references = b"&#" in data
        if self._has_references:
            self._expat.CharacterDataHandler = self._text
        self._expat.CommentHandler = lambda _: self._cut(b"-->")
        self._expat.ProcessingInstructionHandler = lambda *_: self._cut(b"?>")
        try:
            self._expat.Parse(data, True)  # noqa: FBT003  the last piece
        except expat.ExpatError as error:
            raise ValueError(f"the payload is not one well-formed XML element: {error}") from None

    def sent(self) -> bytes:
        """Return the text of the element, without the parts that a stream may not carry."""
        data, start = self._data, self._root
        assert start is not None, "a document has a root"
        pieces = []
        if self._needs_namespace:
            name = NAME.match(data, start)
            assert name, "an element begins with its name"
            pieces += [name[0], b" xmlns=''"]
            start = name.end()
        for cut, end in self._cuts:
            if cut > start:
                pieces.append(data[start:cut])
                start = data.index(end, cut) + len(end)
        pieces.append(data[start:])
        return b"".join(pieces).rstrip()

    def _refuse_dtd(self, *_: object) -> None:
        raise ValueError("the payload has a DTD (<!DOCTYPE), which XMPP forbids")

    def _namespace(self, prefix: str | None, _uri: str | None) -> None:
        if self._root is None and prefix is None:
            self._needs_namespace = False  # the root declares its default namespace, or has none

    def _start(self, _name: str, attributes: dict[str, str]) -> None:
        if self._has_references:
            for value in attributes.values():
                without(SPACE, value, "an attribute of the payload", NOT_KEPT)
        if self._root is None:
            self._root = self._expat.CurrentByteIndex
        self._depth += 1
        if self._depth > DEEPEST:
            raise ValueError(f"the payload has more than {DEEPEST} elements within each other")

    def _text(self, text: str) -> None:
        kept(text, "the text of the payload")

    def _end(self, _name: str) -> None:
        self._depth -= 1

    def _cut(self, end: bytes) -> None:
        self._cuts.append((self._expat.CurrentByteIndex, end))
