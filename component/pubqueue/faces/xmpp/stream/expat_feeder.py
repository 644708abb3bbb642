"""Feeds expat so that it never waits for unneeded bytes, and pads outgoing stanzas for the server's expat.

Since CVE-2023-52425 expat does not retry an unfinished token before it has twice as many bytes of
it; in Debian 12 that cannot be turned off. A stanza that arrives in three pieces, with one tag
across all of them, would wait for bytes of other stanzas, and all stanzas after it too. So bytes
that cannot complete the token that expat has begun are held back here. Servers use the same expat, and read a few KiB at once. So white
space follows an outgoing stanza with a long tag, which XMPP allows between stanzas (RFC 6120 4.6.1).
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from pubqueue.faces.xmpp.stream.passed_over import LongNamespaceError, long_namespace

if TYPE_CHECKING:
    from xml.parsers.expat import XMLParserType

READ_AT_ONCE: Final = 4096
"""The minimum bytes that servers read at once; a tag of that size is in up to two pieces."""

CHUNK: Final = 1 << 20
"""The maximum bytes that Python gives expat at once."""

_TAG: Final = re.compile(rb"""<(?:[^>'"]|'[^']*'|"[^"]*")*>""")
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
    longest = max((len(tag) for tag in _TAG.findall(stanza)), default=0)
    return longest if longest > READ_AT_ONCE else 0


def _pieces(data: bytes, fed: int) -> list[bytes]:
    """Cut what follows the first `fed` bytes, so that expat tries each tag once it is complete."""
    if len(data) - fed <= CHUNK:
        return [data[fed:]]
    cuts = [
        found.start() + attempt
        for found in _TAG.finditer(data)
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
