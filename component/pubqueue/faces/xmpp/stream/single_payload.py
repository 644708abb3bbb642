"""The payload of a request that is read without building elements: it is cut correctly, or left to `reader`.

Why the payload is cut correctly: its first tag opens the root element, the name after the first
`</` of that name is the end of the payload, and expat has found no fault, comment, CDATA section or
processing instruction in an element of ours around it. So that end tag closes that root, nothing is
left open, and the tail that follows is the stanza's own.
"""

from __future__ import annotations

from typing import Final
from xml.parsers import expat

from pubqueue.faces.xmpp.stream.passed_over import MAX_BENEATH, MAX_NAMESPACE_LENGTH, long_namespace
from pubqueue.faces.xmpp.stream.start_tags import MAX_TAG_LENGTH, root_of
from pubqueue.faces.xmpp.xml.payload import DEEPEST

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
