"""Feeds expat so that it never waits for bytes it does not need, and skips what it would read too slowly."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Final
from xml.parsers import expat

if TYPE_CHECKING:
    from xml.parsers.expat import XMLParserType


# Feeds expat so that it never waits for unneeded bytes, and pads outgoing stanzas for the server's expat.
#
# Since CVE-2023-52425 expat does not retry an unfinished token before it has twice as many bytes of
# it; in Debian 12 that cannot be turned off. A stanza that arrives in three pieces, with one tag
# across all of them, would wait for bytes of other stanzas, and all stanzas after it too. So bytes
# that cannot complete the token that expat has begun are held back here. Servers use the same expat, and read a few KiB at once. So white
# space follows an outgoing stanza with a long tag, which XMPP allows between stanzas (RFC 6120 4.6.1).

READ_AT_ONCE: Final = 4096
"""The minimum bytes that servers read at once; a tag of that size is in up to two pieces."""

CHUNK: Final = 1 << 20
"""The maximum bytes that Python gives expat at once."""

_ANY_TAG: Final = re.compile(rb"""<(?:[^>'"]|'[^']*'|"[^"]*")*>""")
_COMPLETE: Final = re.compile(
    rb"""
      <!--.*?-->                                        # a comment
    | <\?.*?\?>                                         # a processing instruction, the XML declaration
    | <!\[CDATA\[                                       # its text comes out as it arrives
    | <(?!!--|\?) (?:[^>'"]|'[^']*'|"[^"]*")* >         # a tag
    | &[^;]*;
    | [^<&]                                             # text
    """,
    re.VERBOSE | re.DOTALL,
)

_ENDS: Final = re.compile(rb"[>;]")
"""The bytes that can complete a token; without one of them expat need not try again."""


def padding(stanza: bytes) -> int:
    """Return how much white space has to follow the stanza, so that its reader notices its end at once."""
    if len(stanza) <= READ_AT_ONCE:
        return 0
    longest = max((len(tag) for tag in _ANY_TAG.findall(stanza)), default=0)
    return longest if longest > READ_AT_ONCE else 0


def _pieces(data: bytes, fed: int) -> list[bytes]:
    """Cut what follows the first `fed` bytes, so that expat tries each tag once it is complete."""
    if len(data) - fed <= CHUNK:
        return [data[fed:]]
    cuts = [
        found.start() + attempt
        for found in _ANY_TAG.finditer(data)
        if len(found[0]) > CHUNK
        for attempt in (0, *_attempts(len(found[0])))
    ]
    return [data[a:b] for a, b in pairwise([fed, *(cut for cut in cuts if cut > fed), len(data)])]


def _attempts(size: int) -> list[int]:
    """Return the sizes at which to give expat a tag of this size: it tries at half the size, and again at the end.

    That holds for the largest tags that servers relay: 512 KiB, six times as much if every character is escaped.
    """
    if size <= CHUNK:
        return [size]
    half = size // 2
    return [*_attempts(half), *range(half + CHUNK, size, CHUNK), size]


class ExpatFeeder:
    """Feeds one parser."""

    def __init__(self, parser: XMLParserType) -> None:
        self._parser = parser
        self._fed = 0
        self._unfed = 0
        self._token = b""
        within: list[bytes] = []  # no reference to this object: expat would live until a collection
        self._in_cdata = within
        parser.StartCdataSectionHandler = lambda: within.append(b"")
        parser.EndCdataSectionHandler = within.clear

    def feed(self, data: bytes) -> None:
        """Parse complete tokens; keep the rest until it is complete.

        Raises:
            xml.parsers.expat.ExpatError: as the parser does.
            LongNamespaceError: a tag declares one; it and the bytes after it have not been parsed.

        """
        waits = self._token[:1] in {b"<", b"&"}
        self._token += data
        self._unfed += len(data)
        if self._in_cdata or (
            not (waits and _ENDS.search(data) is None) and _COMPLETE.match(self._token)
        ):
            self._parse_up_to_long_namespace()
            for piece in _pieces(self._token, len(self._token) - self._unfed):
                self._parser.Parse(piece, False)  # noqa: FBT003  # expat's own signature
            self._fed += self._unfed
            self._unfed = 0
            left = self._fed - self._parser.CurrentByteIndex
            self._token = self._token[-left:] if left else b""

    def _parse_up_to_long_namespace(self) -> None:
        at = long_namespace(self._token)
        if at is None:
            return
        fed = len(self._token) - self._unfed
        if at > fed:
            self._parser.Parse(self._token[fed:at], False)  # noqa: FBT003  # expat's own signature
        raise LongNamespaceError


# Skips stanzas that expat would read too slowly: it builds a name with the whole namespace for every element and attribute.
#
# If half of a stanza is one namespace and the other half elements in it, the time grows with the product. So bytes are searched for long
# namespaces before expat parses them. A stanza that declares one is skipped tag by tag; only its head is read, for the answer.

MAX_NAMESPACE_LENGTH: Final = 256
"""Maximum bytes of a namespace, as written."""

MAX_BENEATH: Final = 50_000
"""Maximum elements of a stanza below the roots of payloads."""

_LONG: Final = re.compile(
    rb"xmlns(?::[^\s=\"'<>]*)?\s*=\s*(?:\"[^\"<]{%d}|'[^'<]{%d})"
    % (MAX_NAMESPACE_LENGTH + 1, MAX_NAMESPACE_LENGTH + 1)
)
_IN_A_TAG: Final = re.compile(rb"<[^\s/>!?](?:[^>'\"]|'[^']*'|\"[^\"]*\")*\s")
_TAG: Final = rb"<(?P<end>/?) %b (?:[^>'\"]|'[^']*'|\"[^\"]*\")* >"
_OTHER: Final = rb"<!--.*?--> | <\?.*?\?> | <!\[CDATA\[.*?\]\]> | "
_ANY: Final = re.compile(_OTHER + _TAG % rb"(?!!|\?)", re.VERBOSE | re.DOTALL)
_NAME: Final = re.compile(rb"<([^\s/>]+)")


class LongNamespaceError(Exception):
    """A tag declares a namespace that is too long."""


def long_namespace(data: bytes) -> int | None:
    """Return the position of the first tag that declares too long a namespace, or None."""
    at = 0
    while (found := _LONG.search(data, at)) is not None:
        begin = data.rfind(b"<", 0, found.start())
        if begin >= 0 and _IN_A_TAG.fullmatch(data, begin, found.start()):
            return begin
        at = found.end()  # the same text in character data
    return None


class PassedOver:
    """Reads only the tags with the stanza's own name. The stanza begins with the first tag of the buffer."""

    def __init__(self) -> None:
        self.begin = 0
        self._at = 0
        self._depth = 0
        self._head = b""
        self._tags = _ANY

    def end_in(self, buffer: bytes) -> int | None:
        """Return where the stanza ends, or None if the buffer does not contain its end; the buffer begins as in the last call."""
        if not self._head and not self._read_head(buffer):
            return None
        if self._tags is not _ANY and b"<!" in buffer:
            self._tags, self._at, self._depth = _ANY, self.begin, 0  # this may not be a tag
        for token in self._tags.finditer(buffer, self._at):
            self._at = token.end()
            if token["end"]:
                self._depth -= 1
            elif token["end"] is not None and not token[0].endswith(b"/>"):
                self._depth += 1
            if self._depth == 0:
                return self._at
        if self._tags is not _ANY:  # everything before the last `<` has been read
            self._at = max(self._at, buffer.rfind(b"<", self._at))
        return None

    def _read_head(self, buffer: bytes) -> bool:
        """Read the stanza's start tag, if it is complete."""
        for token in _ANY.finditer(buffer):
            name = _NAME.match(token[0])
            if name is not None and token["end"] is not None:
                self.begin = self._at = token.start()
                self._head = token[0]
                self._tags = re.compile(_TAG % (re.escape(name[1]) + rb"(?=[\s/>])"), re.VERBOSE)
                return True
        return False

    def head(self, inherited: dict[str, str]) -> tuple[str, dict[str, str]]:
        """Return the stanza's tag and attributes; without a declaration the namespace is that of the stream."""
        found: list[tuple[str, dict[str, str]]] = []
        parser = expat.ParserCreate(encoding="utf-8")
        parser.StartElementHandler = lambda name, attributes: found.append((name, attributes))
        empty = self._head if self._head.endswith(b"/>") else self._head[:-1] + b"/>"
        parser.Parse(empty, True)  # noqa: FBT003  # expat's own signature
        ((name, attributes),) = found
        space = attributes.get("xmlns", inherited.get("", ""))
        return f"{space} {name}" if space else name, attributes
