"""From bytes to stanzas, without building elements that are not read.

Expat does the parsing. Of each stanza only the upper levels become elements, down to an item's
payload; the levels below are skipped, and the payload is cut out of the received bytes. So a
payload is never serialised again: prefixes, attribute order and white space are those that the
publisher's server sent.

The stream comes from our own server, which has checked that stanzas are well-formed. What it may
still relay is bounded here: no document type (so no entities), depth is counted, and so are the
elements of a level and the bytes of namespace declarations. If a stanza has more, or its head is
refused, no more of it is built: it is returned as its head, with the reason (`excess`). So reading
takes time in proportion to the bytes, whatever they are.

Expat keeps every name that it has ever read, and senders choose the names: so after some bytes it
is replaced by a new one.
"""

from __future__ import annotations

import re
from time import thread_time
from typing import TYPE_CHECKING, Final
from xml.etree.ElementTree import ParseError
from xml.parsers import expat

from pubqueue.faces.xmpp.stream.expat import (
    MAX_BENEATH,
    MAX_NAMESPACE_LENGTH,
    ExpatFeeder,
    LongNamespaceError,
    PassedOver,
)
from pubqueue.faces.xmpp.stream.single import SingleReader
from pubqueue.faces.xmpp.xml.stanza import Element, Stanza
from pubqueue.model.decision import Refusal, Refused
from pubqueue.rules.validity import MAX_NAMED, MAX_PUBLISHED
from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.faces.xmpp.stream.single import Single

KEPT: Final = 5
"""Levels that become elements: iq, pubsub, publish, item, payload."""

MAX_OF_A_LEVEL: Final = 5000
"""Elements of one of these levels in a stanza. One costs some microseconds."""

ITEMS_OF: Final = {
    ns.tag(ns.PUBSUB, "publish"): MAX_PUBLISHED,
    ns.tag(ns.PUBSUB, "retract"): MAX_NAMED,
    ns.tag(ns.QUEUEING, "unlock"): MAX_NAMED,
    ns.tag(ns.PUBQUEUE, "touch"): MAX_NAMED,
}
"""The maximum children of these elements: a request with more would be refused anyway."""

MAX_LOOKED_AT: Final = 500
"""Elements of a stanza whose children are not read, after which the rest is skipped without looking at each."""

USUAL_LIMITS: Final = [MAX_OF_A_LEVEL] * (KEPT + 1)
"""The maximum elements of each level, unless the level above has a special limit."""

MAX_DECLARED: Final = 4096
"""The maximum bytes of namespace declarations in scope of an element above the payload: each payload may have to repeat them."""

RENEWED_AFTER: Final = 1 << 18
"""Bytes after which expat is replaced. It can grow to twenty times its input (measured)."""

TOO_MANY: Final = (
    f"a request has at most {MAX_OF_A_LEVEL} elements side by side, and {MAX_BENEATH} in payloads"
)
TOO_MUCH_DECLARED: Final = (
    f"namespace declarations around a payload have at most {MAX_DECLARED} bytes"
)
TOO_LONG: Final = f"a namespace has at most {MAX_NAMESPACE_LENGTH} bytes"
REFUSED: Final = "refused by its head"
"""The reason why a stanza has no children."""

_TAG: Final = re.compile(rb"<(?:[^\"'>]|\"[^\"]*\"|'[^']*')*>")
_EMPTY: Final = re.compile(rb"<(?:[^\"'>]|\"[^\"]*\"|'[^']*')*/>")
_END: Final = b"</iq>"


class StreamParser:
    """Cuts the bytes of one connection into stanzas.

    `admits` returns, given the head of a stanza, whether it is read any further.
    """

    def __init__(self, admits: Callable[[Element], bool] = lambda _head: True) -> None:
        self._admits = admits
        self.header: dict[str, str] | None = None
        self.closed = False
        self._depth = 0
        self._deepest = self._beneath = 0
        self._path: list[Element] = []
        self._texts: list[list[str]] = []
        self._weights: list[int] = []
        self._counts = [0] * (KEPT + 1)
        self._limits = USUAL_LIMITS.copy()
        self._kept = KEPT
        self._excess: str | Refused = ""
        self._passed_over: PassedOver | None = None
        self._spent = 0.0
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
        """Read bytes of the stream and return the stanzas that they complete.

        Raises:
            ParseError: it is not an XML stream, or has a document type.

        """
        at = 0
        while at < len(data):
            at = self._take_singles(data, at)
            if at < len(data):
                known, began = len(self._done), thread_time()
                at = self._take_any(data, at)
                self._spent += thread_time() - began
                self._note_cost(self._done[known:])
        if self._passed_over is None and self._base > RENEWED_AFTER and not self.closed:
            self._renew()
        done, self._done = self._done, []
        return done

    def _note_cost(self, done: list[Stanza | Single]) -> None:
        """Note the time to read these stanzas, each by its bytes; an unfinished stanza gets its part when it ends."""
        byte_count = sum(len(stanza.raw) for stanza in done)
        for stanza in done:
            if isinstance(stanza, Stanza):
                stanza.cost = self._spent * len(stanza.raw) / byte_count
        if done:
            self._spent = 0.0

    def _take_singles(self, data: bytes, at: int) -> int:
        """Read requests for single items as long as there are any, and return where they end.

        Expat need not get a whole stanza between two others: its state stays the same.
        """
        if self._singles is not None and self._between:
            while (single := self._singles.read(data, at)) is not None:
                self._done.append(single)
                at += single.length
        return at

    def _take_any(self, data: bytes, at: int) -> int:
        """Read up to where an IQ may end, or else everything, and return where that is."""
        end = data.find(_END, at) + len(_END)
        piece = data[at:end] if end >= len(_END) else data[at:]
        self._read(piece)
        at += len(piece)
        if self._between or at == len(data):
            return at
        self._read(data[at:])  # at once: cutting at every such end in a payload would take too long
        return len(data)

    @property
    def _between(self) -> bool:
        """Return whether all bytes so far are complete stanzas, so that a stanza may begin."""
        return self._depth == 1 and not self._buffer

    def _read(self, data: bytes) -> None:
        """Give these bytes to expat."""
        self._buffer += data
        if self._passed_over is None:
            self._parse(data)
        while self._passed_over is not None and self._end_passing_over(self._passed_over):
            self._renew()
        self._forget()

    def _begin(self) -> None:
        self._expat = _expat(self)
        self._expat_feeder = ExpatFeeder(self._expat)

    def _parse(self, data: bytes) -> None:
        try:
            self._expat_feeder.feed(data)
        except LongNamespaceError as problem:
            if self._depth < 1:
                raise ParseError(TOO_LONG) from problem
            self._excess, self._passed_over = TOO_LONG, PassedOver()
        except expat.ExpatError as problem:
            raise ParseError(str(problem)) from problem
        if self._passed_over is not None:
            self._forget()
            self._depth = 2  # within a stanza, whatever expat has seen of it

    def _end_passing_over(self, stanza: PassedOver) -> bool:
        """Return whether a stanza that is hidden from expat is complete; if so, add its head to the read stanzas."""
        end = stanza.end_in(self._buffer)
        if end is None:
            return False
        tag, attributes = stanza.head(self._inherited)
        raw, self._buffer = self._buffer[stanza.begin : end], self._buffer[end:]
        top = Element(tag, attributes, 0)
        self._done.append(Stanza(top, raw, KEPT, self._inherited, self._excess))
        self._passed_over = None
        return True

    def _forget(self) -> None:
        """Drop the bytes up to the end of the last whole stanza, and white space after it."""
        if self._complete > self._base:
            self._buffer = self._buffer[self._complete - self._base :]
            self._base = self._complete
        if self._depth == 1:
            size = len(self._buffer)
            self._buffer = self._buffer.lstrip()
            self._base += size - len(self._buffer)

    def _renew(self) -> None:
        """Continue with a new expat: it opens the same stream and reads the unfinished stanza again."""
        self._begin()
        self._depth = self._deepest = 0
        self._path.clear()
        self._texts.clear()
        self._weights.clear()
        self._end_stanza()
        self._declared.clear()
        self._base = self._complete = len(self._opening)
        self._parse(self._opening)
        self._parse(self._buffer)

    def on_namespace(self, prefix: str | None, uri: str | None) -> None:
        """Note a declaration; expat reports it just before its element."""
        self._declared[prefix or ""] = uri or ""

    def on_start(self, tag: str, attributes: dict[str, str]) -> None:
        """Open an element."""
        depth = self._depth
        self._depth = depth + 1
        if depth > self._kept:
            self._go_beneath(depth)
            return
        if depth == 0:
            self._open(attributes)
            return
        if (excess := self._judge(depth)) and depth > 1:
            self._pass_over(excess)
            return
        if depth < KEPT - 1:  # it may have items
            items = self._counts[depth + 1] + ITEMS_OF.get(tag, MAX_OF_A_LEVEL)
            self._limits[depth + 1] = min(items, MAX_OF_A_LEVEL)
        element = Element(tag, attributes, self._expat.CurrentByteIndex)
        if self._declared:
            element.declared, self._declared = self._declared, {}
        if self._path:
            self._path[-1].children.append(element)
        self._path.append(element)
        self._texts.append([])
        self._childless = True
        if depth == 1 and (excess or not self._admits(element)):
            self._excess, self._kept = excess or REFUSED, 1

    def _go_beneath(self, depth: int) -> None:
        """Count an element that is not built."""
        self._deepest = max(depth, self._deepest)
        self._childless = False
        if self._declared:
            self._declared.clear()
        self._beneath += 1
        if self._beneath > (MAX_LOOKED_AT if self._excess else MAX_BENEATH):
            self._leave_to_pass_over(self._excess or TOO_MANY)

    def _leave_to_pass_over(self, excess: str | Refused) -> None:
        """Ignore what expat reads from here on: the end of this stanza is found without it."""
        parser = self._expat
        parser.StartElementHandler = parser.EndElementHandler = None
        parser.CharacterDataHandler = parser.StartNamespaceDeclHandler = None
        self._excess, self._passed_over = excess, PassedOver()

    def _judge(self, depth: int) -> str | Refused:
        """Count an element; return the reason if it is one too many, else ""."""
        self._counts[depth] += 1
        weight = self._weights[-1] if self._weights else 0
        if self._declared and depth < KEPT:
            weight += sum(len(p) + len(uri) for p, uri in self._declared.items())
        self._weights.append(weight)
        if self._counts[depth] > self._limits[depth]:
            items = ITEMS_OF.get(self._path[-1].tag) if self._path else None
            return Refused(Refusal.TOO_MANY_ITEMS, limit=items) if items else TOO_MANY
        return TOO_MUCH_DECLARED if weight > MAX_DECLARED else ""

    def _pass_over(self, excess: str | Refused) -> None:
        """Build no more elements of this stanza, beginning with the current one."""
        self._weights.pop()
        self._excess, self._kept = excess, len(self._path)
        self._declared.clear()
        self._childless = False

    def _end_stanza(self) -> None:
        """Reset the counts."""
        self._deepest, self._beneath, self._kept, self._excess = 0, 0, KEPT, ""
        self._counts = [0] * (KEPT + 1)
        self._limits = USUAL_LIMITS.copy()

    def _open(self, attributes: dict[str, str]) -> None:
        """Note the stream's own start tag; one that `_renew` repeats is already known."""
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
        if self._texts and self._depth <= self._kept + 1:
            self._texts[-1].append(text)

    def on_end(self, _tag: str) -> None:
        """Close an element; at the stanza's own end it is complete."""
        depth = self._depth = self._depth - 1
        if depth > self._kept:
            self._childless = False
            return
        if depth == 0:
            self.closed = True
            return
        element = self._path.pop()
        if texts := self._texts.pop():
            element.text = "".join(texts)
        self._weights.pop()
        element.end = self._end_of(element)
        self._childless = False
        if self._excess:
            self._kept = max(depth - 1, 1)
        if depth == 1:
            raw = self._buffer[element.start - self._base : element.end - self._base]
            depth = max(self._deepest, KEPT)
            self._done.append(Stanza(element, raw, depth, self._inherited, self._excess))
            self._end_stanza()
            self._complete = element.end

    def _end_of(self, element: Element) -> int:
        """Return the position after the element.

        Expat's position is after an empty-element tag, but before an end tag.
        """
        here = self._expat.CurrentByteIndex - self._base
        if self._childless and not element.text:
            start = element.start - self._base
            if _EMPTY.fullmatch(self._buffer, start, here):
                return self._base + here
        return self._base + self._buffer.index(b">", here) + 1

    def on_doctype(self, *_facts: object) -> None:
        """Refuse a document type, because it may declare entities."""
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
