"""From bytes to stanzas, without building what nobody reads.

Expat does the parsing. Of each stanza only the upper levels become elements, down to an item's payload;
what lies below is passed over, and the payload is cut out of the received bytes. So a payload is never
serialised anew: prefixes, attribute order and white space are what the publisher's server sent.

The stream comes from our own server, which has checked that stanzas are well-formed. What it may still
relay is bounded here: no document type (so no entities), and depth is counted. Expat keeps every name
that it has ever met, and names are the senders' choice: so after some bytes it is replaced by a new one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from xml.etree.ElementTree import ParseError
from xml.parsers import expat

from pubqueue.faces.xmpp import ns
from pubqueue.faces.xmpp.feeder import Feeder
from pubqueue.faces.xmpp.single import SingleReader
from pubqueue.faces.xmpp.text import attribute, echo, in_quotes, quoted

if TYPE_CHECKING:
    from pubqueue.faces.xmpp.single import Single

KEPT: Final = 5
"""Levels that become elements: iq, pubsub, publish, item, payload."""

RENEWED_AFTER: Final = 1 << 18
"""Bytes after which expat is replaced. It can grow to twenty times of what it was fed (measured)."""

_TAG: Final = re.compile(rb"<(?:[^\"'>]|\"[^\"]*\"|'[^']*')*>")
_EMPTY: Final = re.compile(rb"<(?:[^\"'>]|\"[^\"]*\"|'[^']*')*/>")
_NAME_END: Final = re.compile(rb"[\s/>]")
_END: Final = b"</iq>"
_ERROR: Final = ns.tag(ns.COMPONENT, "error")


class Element:
    """An upper-level element, with where its bytes are in its stanza."""

    __slots__ = ("attributes", "children", "declared", "end", "start", "tag", "text")

    def __init__(self, tag: str, attributes: dict[str, str], start: int) -> None:
        self.tag = tag
        self.attributes = attributes
        self.children: list[Element] = []
        self.text = ""
        self.declared: dict[str, str] | None = None
        self.start = start
        self.end = start

    def get(self, name: str) -> str | None:
        """Return an attribute."""
        return self.attributes.get(name)

    def find(self, tag: str) -> Element | None:
        """Return the first child with this tag."""
        for child in self.children:
            if child.tag == tag:
                return child
        return None


class Stanza:
    """A whole stanza: its top element, its bytes, and how deep it goes."""

    __slots__ = ("_declared", "depth", "raw", "top")

    def __init__(self, top: Element, raw: bytes, depth: int, declared: dict[str, str]) -> None:
        self.top = top
        self.raw = raw
        self.depth = depth
        self._declared = declared

    def cut(self, path: list[Element]) -> bytes:
        """Return the bytes of the last element of `path`, as a document of its own.

        `path` leads to it from the top element. Namespace declarations that it takes from its
        ancestors are written into it.
        """
        element, base = path[-1], self.top.start
        piece = self.raw[element.start - base : element.end - base]
        inherited = self._declared.copy()
        for ancestor in path[:-1]:
            inherited.update(ancestor.declared or {})
        if inherited.get("") == ns.COMPONENT:
            inherited[""] = ns.CLIENT  # what a component's own namespace stands for
        own = element.declared or {}
        missing = [
            (prefix, uri)
            for prefix, uri in inherited.items()
            if prefix not in own and (not prefix or prefix.encode() + b":" in piece)
        ]
        return _declare(piece, missing) if missing else piece

    @property
    def address(self) -> bytes:
        """The attributes of a reply: the request's id, from and to swapped (RFC 6120 8.2.3)."""
        top = self.top
        mine, theirs, own = top.get("to") or "", top.attributes["from"], top.get("id")
        words = "" if own is None else f" id={in_quotes(own)}"
        return f'{words} from="{attribute(mine)}" to="{attribute(theirs)}"'.encode()

    def echo(self) -> bytes:
        """Return the child of the IQ, for an error to repeat."""
        if not self.top.children or self.top.children[0].tag == _ERROR:
            return b""  # an error would be taken for our own
        child = self.top.children[0]
        namespace, _, name = child.tag.rpartition(" ")
        return echo(self.cut([self.top, child]), name, namespace)


def _declare(piece: bytes, missing: list[tuple[str, str]]) -> bytes:
    """Write namespace declarations into the start tag."""
    found = _NAME_END.search(piece)
    at = found.start() if found else len(piece)
    words = "".join(
        f' xmlns{":" + prefix if prefix else ""}="{quoted(uri)}"' for prefix, uri in missing
    )
    return piece[:at] + words.encode() + piece[at:]


class StreamParser:
    """Cuts one connection's bytes into stanzas. Feed it; take what is complete."""

    def __init__(self) -> None:
        self.header: dict[str, str] | None = None
        self.closed = False
        self._depth = 0
        self._deepest = 0
        self._path: list[Element] = []
        self._declared: dict[str, str] = {}
        self._childless = False
        self._buffer = b""
        self._base = 0
        self._complete = 0
        self._done: list[Stanza | Single] = []
        self._singles: SingleReader | None = None
        self._opening = b""
        self._inherited: dict[str, str] = {}
        self._begin()

    def feed(self, data: bytes) -> list[Stanza | Single]:
        """Take bytes from the wire and return the stanzas that they complete.

        Raises:
            ParseError: this is no XML stream, or it carries a document type.

        """
        at = 0
        while at < len(data):
            at = self._take_singles(data, at)
            if at < len(data):
                at = self._take_any(data, at)
        if self._base > RENEWED_AFTER and not self.closed:
            self._renew()
        done, self._done = self._done, []
        return done

    def _take_singles(self, data: bytes, at: int) -> int:
        """Take requests for single items as long as there are any, and return where they end.

        Between two stanzas expat may know nothing of one: that leaves its state as it is.
        """
        if self._singles is not None and self._between:
            while (single := self._singles.read(data, at)) is not None:
                self._done.append(single)
                at += len(single.raw)
        return at

    def _take_any(self, data: bytes, at: int) -> int:
        """Take whatever comes up to where an IQ may end, or else all, and return where that is."""
        end = data.find(_END, at) + len(_END)
        piece = data[at:end] if end >= len(_END) else data[at:]
        self._read(piece)
        at += len(piece)
        if self._between or at == len(data):
            return at
        self._read(
            data[at:]
        )  # at once: cut at every end that stands in a payload, it would be read for ever
        return len(data)

    @property
    def _between(self) -> bool:
        """Whether all that came is complete, and a stanza may begin."""
        return self._depth == 1 and not self._buffer

    def _read(self, data: bytes) -> None:
        """Have expat read this."""
        self._buffer += data
        self._parse(data)
        self._forget()

    def _begin(self) -> None:
        self._expat = _expat(self)
        self._feeder = Feeder(self._expat)

    def _parse(self, data: bytes) -> None:
        try:
            self._feeder.feed(data)
        except expat.ExpatError as problem:
            raise ParseError(str(problem)) from problem

    def _forget(self) -> None:
        """Drop the bytes up to the end of the last whole stanza, and white space behind it."""
        if self._complete > self._base:
            self._buffer = self._buffer[self._complete - self._base :]
            self._base = self._complete
        if self._depth == 1:
            size = len(self._buffer)
            self._buffer = self._buffer.lstrip()
            self._base += size - len(self._buffer)

    def _renew(self) -> None:
        """Go on with a new expat: it opens the same stream and reads the unfinished stanza again."""
        self._begin()
        self._depth = self._deepest = 0
        self._path.clear()
        self._declared.clear()
        self._base = self._complete = len(self._opening)
        self._parse(self._opening)
        self._parse(self._buffer)

    def on_namespace(self, prefix: str | None, uri: str | None) -> None:
        """Note a declaration; it comes just before the element that it stands on."""
        self._declared[prefix or ""] = uri or ""

    def on_start(self, tag: str, attributes: dict[str, str]) -> None:
        """Open an element."""
        depth = self._depth
        self._depth = depth + 1
        if depth > KEPT:
            self._deepest = max(depth, self._deepest)
            self._childless = False
            self._declared.clear()
            return
        if depth == 0:
            self._open(attributes)
            return
        element = Element(tag, attributes, self._expat.CurrentByteIndex)
        if self._declared:
            element.declared, self._declared = self._declared, {}
        if self._path:
            self._path[-1].children.append(element)
        self._path.append(element)
        self._childless = True

    def _open(self, attributes: dict[str, str]) -> None:
        """Take the stream's own start tag; one that `_renew` repeats is known."""
        if self.header is None:
            self.header = attributes
            self._inherited = self._declared.copy()
            found = _TAG.match(self._buffer, self._expat.CurrentByteIndex)
            self._opening = found[0] if found else b""
            self._complete = self._expat.CurrentByteIndex + len(self._opening)
            self._singles = SingleReader(self._inherited)
        self._declared.clear()

    def on_text(self, text: str) -> None:
        """Keep the text of upper-level elements."""
        if self._path and self._depth <= KEPT + 1:
            self._path[-1].text += text

    def on_end(self, _tag: str) -> None:
        """Close an element; at the stanza's own end it is complete."""
        depth = self._depth = self._depth - 1
        if depth > KEPT:
            self._childless = False
            return
        if depth == 0:
            self.closed = True
            return
        element = self._path.pop()
        element.end = self._end_of(element)
        self._childless = False
        if depth == 1:
            raw = self._buffer[element.start - self._base : element.end - self._base]
            depth = max(self._deepest, KEPT)
            self._done.append(Stanza(element, raw, depth, self._inherited))
            self._deepest = 0
            self._complete = element.end

    def _end_of(self, element: Element) -> int:
        """Return where the element's last byte is followed by the next.

        Expat stands behind an empty-element tag, but in front of an end tag.
        """
        here = self._expat.CurrentByteIndex - self._base
        if self._childless and not element.text:
            start = element.start - self._base
            if _EMPTY.fullmatch(self._buffer, start, here):
                return self._base + here
        return self._base + self._buffer.index(b">", here) + 1

    def on_doctype(self, *_facts: object) -> None:
        """Refuse a document type: with it would come entities."""
        raise ParseError("a document type in the stream")


def _expat(target: StreamParser) -> expat.XMLParserType:
    parser = expat.ParserCreate(encoding="utf-8", namespace_separator=" ")
    parser.buffer_text = True
    parser.StartNamespaceDeclHandler = target.on_namespace
    parser.StartElementHandler = target.on_start
    parser.EndElementHandler = target.on_end
    parser.CharacterDataHandler = target.on_text
    parser.StartDoctypeDeclHandler = target.on_doctype
    return parser
