"""Batches of messages: Atom feeds (RFC 4287) and multipart bodies (RFC 2046)."""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from typing import TYPE_CHECKING, Final
from xml.parsers import expat

from lxml import etree
from msgspec import Struct

from pubqueue.faces.http.problems import ProblemError, bad_request
from pubqueue.faces.rest.items import REPLIES, TOKEN, Wishes, wishes_of
from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    from collections.abc import Iterator


# Atom feeds (RFC 4287): each entry is a message, which is the content of the entry.

ATOM_TYPE: Final = "application/atom+xml"
ATOM: Final = "http://www.w3.org/2005/Atom"
ITEM_URN: Final = f"{ns.PUBQUEUE}:item:"

MAX_DEPTH: Final = 100
MAX_ELEMENTS: Final = 100_000
SLICE: Final = 65_536
"""Bytes that are read at a time, so that another thread has its turn."""

_SPACE: Final = re.compile(rb"\s+")


class _TooMuchError(Exception):
    """The document has a type, is too deep, or has too many elements."""


class _Bounds:
    """Counts elements as they are read."""

    def __init__(self) -> None:
        self.depth = self.count = 0

    def on_start(self, *_: object) -> None:
        self.depth += 1
        self.count += 1
        if self.depth > MAX_DEPTH or self.count > MAX_ELEMENTS:
            raise _TooMuchError

    def on_end(self, _name: str) -> None:
        self.depth -= 1

    def refuse(self, *_: object) -> None:
        raise _TooMuchError


def _parser() -> etree.XMLParser:
    return etree.XMLParser(
        encoding="utf-8", resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False
    )


def parsed(document: bytes) -> etree._Element:  # lxml's name for it
    """Return the root of a document without a type, in bounded time and memory. Call it in a thread if it may be large.

    Raises:
        ProblemError: it is not such a document.

    """
    bounds = _Bounds()
    parser = expat.ParserCreate("utf-8")
    parser.StartElementHandler, parser.EndElementHandler = bounds.on_start, bounds.on_end
    parser.StartDoctypeDeclHandler = bounds.refuse
    try:
        for begin in range(0, len(document), SLICE):
            parser.Parse(document[begin : begin + SLICE], False)  # noqa: FBT003  # expat's own signature
        parser.Parse(b"", True)  # noqa: FBT003
    except expat.ExpatError:
        raise bad_request("the body is not a well-formed XML document in UTF-8") from None
    except _TooMuchError:
        words = f"a document has no type, up to {MAX_DEPTH} levels and {MAX_ELEMENTS} elements"
        raise bad_request(words) from None
    try:
        return etree.fromstring(document, _parser())
    except etree.XMLSyntaxError:
        raise bad_request("the body is not a well-formed XML document in UTF-8") from None


def entries_of_feed(document: bytes, most: int) -> list[Entry]:
    """Return the entries of a feed. Call it in a thread.

    Raises:
        ProblemError: it is not a feed, has more than `most` entries, or one of them has an error.

    """
    root = parsed(document)
    if root.tag != f"{{{ATOM}}}feed":
        raise bad_request("the body is not an Atom feed")
    entries = root.findall(f"{{{ATOM}}}entry")
    if len(entries) > most:
        raise ProblemError(413, "too-large", f"a batch has up to {most} messages", limit=most)
    found: list[Entry] = []
    for index, entry in enumerate(entries):
        try:
            found.append(_entry_of_feed(entry))
        except ProblemError as problem:
            raise at(index, problem) from None
    return found


def _entry_of_feed(entry: etree._Element) -> Entry:
    contents = entry.findall(f"{{{ATOM}}}content")
    if len(contents) != 1:
        raise bad_request("an entry has one content")
    kind, body = _content(contents[0])
    wishes = Wishes(type=kind)
    name = (entry.findtext(f"{{{ATOM}}}id") or "").strip()
    if name.startswith(ITEM_URN):
        wishes.id = name.removeprefix(ITEM_URN)
        if not wishes.id:
            raise bad_request("the id of the entry is empty")
    wishes.links.extend(_links(entry))
    return Entry(wishes, body)


def _links(entry: etree._Element) -> Iterator[str]:
    """Yield the links by which a consumer replies, in the form of request fields."""
    for link in entry.findall(f"{{{ATOM}}}link"):
        rel, href = link.get("rel", ""), link.get("href", "").strip()
        if rel in REPLIES:
            if not href or any(char in href for char in "<>\r\n"):
                raise bad_request("a link of the entry has no URL")
            yield f'<{href}>; rel="{rel}"'


def _content(content: etree._Element) -> tuple[str, bytes]:
    """Return type and body (RFC 4287 4.1.3.3)."""
    if content.get("src") is not None:
        raise bad_request("content of an entry is in the entry: nothing is fetched")
    kind = content.get("type", "text").strip()
    if kind in {"text", "html"}:
        if len(content):
            raise bad_request(f"content of type {kind} has no elements")
        subtype = "plain" if kind == "text" else "html"
        return f"text/{subtype}; charset=utf-8", (content.text or "").encode()
    media = kind.partition(";")[0].strip().lower()
    if kind == "xhtml" or media.endswith(("+xml", "/xml")):
        children = list(content.iterchildren("*"))
        if len(children) != 1:
            raise bad_request("XML content of an entry is one element")
        body = etree.tostring(children[0], with_tail=False, encoding="utf-8")
        return "application/xhtml+xml" if kind == "xhtml" else kind, body
    if len(content):
        raise bad_request(f"content of type {kind} has no elements")
    if media.startswith("text/"):
        return kind, (content.text or "").encode()
    try:
        return kind, b64decode(_SPACE.sub(b"", (content.text or "").encode()), validate=True)
    except binascii.Error:
        raise bad_request(f"content of type {kind} is in base64") from None


# An entry of a batch.


class Entry(Struct):
    """The headers and the body of one message of a batch."""

    wishes: Wishes
    body: bytes


def at(index: int, problem: ProblemError) -> ProblemError:
    """Return the problem of the entry of this index, counted from 0."""
    problem.more["index"] = index
    return problem


def bad_entry(index: int, detail: str) -> ProblemError:
    """Return the problem of an entry with an error."""
    return ProblemError(400, "bad-request", detail, index=index)


# Multipart bodies (RFC 2046): each part is a message, whose headers are read as those of a request.

MULTIPART_TYPE: Final = "multipart/mixed"
MAX_HEAD: Final = 16_384
MAX_LINES: Final = 128
"""Bytes and lines of the headers of a part."""

ENCODINGS: Final = frozenset({"7bit", "8bit", "binary"})
_BOUNDARY: Final = re.compile(r"[0-9A-Za-z'()+_,\-./:=? ]{0,69}[0-9A-Za-z'()+_,\-./:=?]")
_DELIMITED: Final = re.compile(rb"[ \t]*\r\n")


def entries_of_parts(body: bytes, boundary: str, most: int) -> list[Entry]:
    """Return the entries. Call it in a thread.

    Raises:
        ProblemError: the body cannot be read, or has more than `most` parts.

    """
    if not _BOUNDARY.fullmatch(boundary):
        raise bad_request("the media type has no boundary")
    found: list[Entry] = []
    for index, part in enumerate(_parts(body, boundary.encode())):
        if index >= most:
            raise ProblemError(413, "too-large", f"a batch has up to {most} messages", limit=most)
        try:
            found.append(_entry_of_part(part))
        except ProblemError as problem:
            raise at(index, problem) from None
    return found


def _parts(body: bytes, boundary: bytes) -> Iterator[bytes]:
    """Yield the parts, with their headers."""
    delimiter = b"\r\n--" + boundary
    whole = b"\r\n" + body
    begin = whole.find(delimiter)
    index = 0
    while begin >= 0:
        begin += len(delimiter)
        if whole.startswith(b"--", begin):
            return
        start = _DELIMITED.match(whole, begin)
        # the line break before the first header may be that of the delimiter, if the part has no headers
        end = -1 if start is None else whole.find(delimiter, start.end() - 2)
        if start is None or end < 0:
            raise bad_entry(index, "the part does not end with the boundary")
        yield whole[start.end() : end]
        begin, index = end, index + 1
    raise bad_request("the body does not end with the boundary")


def _entry_of_part(part: bytes) -> Entry:
    head, body = b"", part
    if part.startswith(b"\r\n"):
        body = part[2:]
    else:
        head, empty, body = part.partition(b"\r\n\r\n")
        if not empty:
            raise bad_request("the headers of the part do not end with an empty line")
    if len(head) > MAX_HEAD:
        raise ProblemError(431, "headers-too-large", f"up to {MAX_HEAD} bytes", limit=MAX_HEAD)
    lines = head.split(b"\r\n") if head else []
    if len(lines) > MAX_LINES:
        raise ProblemError(431, "headers-too-large", f"up to {MAX_LINES} lines", limit=MAX_LINES)
    headers = [_field(line) for line in lines]
    for name, value in headers:
        small = name.lower()
        if small == "content-transfer-encoding" and value.lower() not in ENCODINGS:
            raise bad_request("Content-Transfer-Encoding is 7bit, 8bit or binary")
        if small == "content-type" and value.lower().startswith("multipart/"):
            raise bad_request("a part is not multipart itself")
    return Entry(wishes_of(headers), body)


def _field(line: bytes) -> tuple[str, str]:
    name, colon, value = line.decode(errors="surrogateescape").partition(":")
    if not colon or not TOKEN.fullmatch(name) or "\n" in value:
        raise bad_request("a header of the part cannot be read")
    return name, value.strip(" \t")
