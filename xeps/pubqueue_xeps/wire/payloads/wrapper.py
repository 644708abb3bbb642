"""Wraps a body with its content type into one XML element, and unwraps it byte for byte.

| content type | stored as |
| --- | --- |
| XML, and the body is one element that is not a wrapper | the body as it is |
| `application/json`, and the body is JSON and safe text | `<json xmlns='urn:xmpp:json:0'>` (XEP-0335) |
| `text/*`, `+json`, `+xml`, forms, or no type if the protocol marks it as text; and the body is safe text | `<data
xmlns='urn:x-pubqueue:data:0' type='...'>` |
| such text that is not safe, or is shorter in base64 | the same with `encoding='base64' form='text'` |
| anything else, and an empty body | the same with `encoding='base64'` |

`escaped` defines which text is safe. JSON stays in its element however long its escapes are: a node may take nothing else.
In the first two rows, a type that the element does not imply is in
the item's header `content-type`. All functions are pure, and `unwrap` accepts any bytes.
"""

from __future__ import annotations

import binascii
import re
from codecs import getincrementaldecoder
from io import BytesIO
from typing import TYPE_CHECKING, Final, TypeVar
from xml.parsers import expat

import msgspec

from pubqueue_xeps.wire import ns
from pubqueue_xeps.wire.payloads.content_type import JSON, TEXT, XML, form_of
from pubqueue_xeps.wire.xml_text import quote

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from pubqueue_xeps.wire.payloads.content_type import PayloadForm


# The element `<data/>`, which carries text or bytes with their content type:
#
#     <data xmlns='urn:x-pubqueue:data:0' type='text/csv'>a,b</data>
#     <data xmlns='urn:x-pubqueue:data:0' type='image/png' encoding='base64'>iVBORw0KGgo=</data>
#     <data xmlns='urn:x-pubqueue:data:0' type='text/csv' encoding='base64' form='text'>YSxiDQo=</data>
#
# Text that passes every XML parser and server unchanged is sent as it is, unless its escapes make it longer than base64 would:
# so nothing grows by more than a third. Everything else is in base64; `form` says that it is text in UTF-8.

DATA_TAG: Final = f"{{{ns.PAYLOAD}}}data"
BASE64: Final = "base64"

MARKS: Final = b"&<>"
"""Bytes that are written as entities."""

FORBIDDEN: Final = bytes(byte for byte in range(0x20) if byte not in b"\t\n")
"""Bytes of characters that XML cannot carry, and the carriage return, which parsers turn into a line feed."""

PLAIN: Final = bytes(byte for byte in range(0x100) if byte not in MARKS + FORBIDDEN)
"""Bytes that need no escape in text."""

BOM: Final = b"\xef\xbb\xbf"
NO_CHARACTERS: Final = (b"\xef\xbf\xbe", b"\xef\xbf\xbf")
"""U+FFFE and U+FFFF in UTF-8, which XML cannot carry."""

GROUPS: Final = 3 << 16
"""Bytes that are encoded at once: whole groups of base64. Of megabytes there is one copy then, and other threads have their turns."""

ROOM: Final = 34
"""Bytes that base64 needs at most beside four thirds of the body: its attributes, and what fills its last group."""

_SPACE: Final = b" \t\r\n"
_SPACE_NAME: Final = ns.PAYLOAD.encode()
_DATA_END: Final = b"</data>"


def escaped(body: bytes) -> bytes | None:
    """Return a body as character data if every parser returns it unchanged, else None.

    Safe is UTF-8 without a byte order mark, of characters that XML 1.0 can carry, without carriage returns.
    """
    odd = body.translate(None, PLAIN)
    if odd and odd.strip(MARKS):
        return None
    if not body.isascii() and not _is_unicode(body):
        return None
    if not odd:
        return body
    return body.replace(b"&", b"&amp;").replace(b"<", b"&lt;").replace(b">", b"&gt;")


def of_text(type: str | None, content: bytes) -> bytes:  # noqa: A002 - the name of the attribute
    """Return the element that carries a text; `content` is what `escaped` returned."""
    return b"<data xmlns='%b'%b>%b</data>" % (_SPACE_NAME, _type_attribute(type), content)


def of_bytes(type: str | None, body: bytes, *, is_text: bool = False) -> bytes:  # noqa: A002 - the name of the attribute
    """Return the element that carries bytes, which may be a text in UTF-8."""
    form = b" form='text'" if is_text else b""
    begin = b"<data xmlns='%b'%b encoding='base64'%b>" % (_SPACE_NAME, _type_attribute(type), form)
    if len(body) <= GROUPS:
        return b"%b%b</data>" % (begin, binascii.b2a_base64(body, newline=False))
    written, view = BytesIO(), memoryview(body)  # megabytes: its value is not copied
    written.write(begin)
    for at in range(0, len(view), GROUPS):
        written.write(binascii.b2a_base64(view[at : at + GROUPS], newline=False))
    written.write(_DATA_END)
    return written.getvalue()


def read_data(attributes: Mapping[str, str], text: str) -> str | bytes | None:
    """Return the text or the bytes that an element carries; None if they cannot be decoded."""
    encoding = attributes.get("encoding")
    if encoding is None:
        return text
    if encoding != BASE64:
        return None
    data = decoded(text.encode("utf-8", "replace").translate(None, _SPACE))
    if data is None or attributes.get("form") != "text" or not is_utf8(data):
        return data
    return data.decode()


PIECE: Final = 1 << 16
"""Bytes of a large body that are decoded at once: as a text it may need four times its bytes."""


def is_utf8(body: bytes) -> bool:
    """Return whether a body is text in UTF-8."""
    if body.isascii():
        return True
    decode = getincrementaldecoder("utf-8")().decode
    try:
        for at in range(0, len(body), PIECE):
            decode(body[at : at + PIECE])
        decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def decoded(text: str | bytes | memoryview) -> bytes | None:
    """Decode base64 without line breaks; return None if it is malformed."""
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except ValueError:  # not base64, or not even ASCII
        return None


def _type_attribute(type: str | None) -> bytes:  # noqa: A002
    return b"" if type is None else b" type=" + quote(type).encode()


def _is_unicode(body: bytes) -> bool:
    return not (body.startswith(BOM) or any(each in body for each in NO_CHARACTERS)) and is_utf8(
        body
    )


# Which XML bodies may be stored unchanged because they mean the same in every stanza.

DEEPEST: Final = 100
"""The maximum depth of nested elements."""

MAX_ELEMENTS: Final = 50_000

MAX_NAMESPACE_LENGTH: Final = 256
"""The maximum length of a namespace in characters; a parser copies it for each element, so long ones are expensive."""


def root_of(body: bytes) -> str | None:
    """Return the name, `{namespace}name`, of the element that the body is, or None if it may not be stored unchanged.

    It is in a namespace, in UTF-8, with nothing before or after it, and has no DTD, comment, CDATA or instruction, nor a reference
    that makes a tab or line end in an attribute, or a carriage return. None
    of its elements would inherit a default namespace from outside. It has up to `DEEPEST` levels and `MAX_ELEMENTS`
    elements, with namespaces of up to `MAX_NAMESPACE_LENGTH` characters.
    """
    if not (body.startswith(b"<") and body.endswith(b">")):
        return None
    element = _Element()
    try:
        element.parse(body)
    except (expat.ExpatError, _UnfitError):
        return None
    return element.root


_LINES: Final = re.compile("[\t\n\r]")


class _UnfitError(Exception):
    """The body contains something that is not allowed in a payload."""


class _Element:
    """One element, as expat reports it."""

    def __init__(self) -> None:
        self.root: str | None = None
        self._depth = self._count = 0
        self._inherits = True
        """Whether the root has no default namespace of its own."""

    def parse(self, body: bytes) -> None:
        # only a reference makes a tab or line end in an attribute, or a carriage return: a server would not write it as one
        self._has_references = b"&#" in body
        parser = expat.ParserCreate("utf-8", namespace_separator="}")
        parser.StartNamespaceDeclHandler = self._on_namespace
        parser.StartElementHandler = self._on_start
        parser.EndElementHandler = self._on_end
        parser.XmlDeclHandler = parser.StartDoctypeDeclHandler = self._refuse
        parser.CommentHandler = parser.ProcessingInstructionHandler = self._refuse
        parser.StartCdataSectionHandler = self._refuse
        if self._has_references:
            parser.CharacterDataHandler = self._on_text
        parser.Parse(body, True)  # noqa: FBT003 - expat's own signature

    def _on_namespace(self, prefix: str | None, space: str | None) -> None:
        if space is not None and len(space) > MAX_NAMESPACE_LENGTH:
            raise _UnfitError
        if self.root is None and prefix is None:
            self._inherits = False

    def _on_start(self, name: str, attributes: dict[str, str]) -> None:
        if self._has_references and any(map(_LINES.search, attributes.values())):
            raise _UnfitError
        self._depth += 1
        self._count += 1
        bare = "}" not in name
        if bare and (self.root is None or self._inherits):
            raise _UnfitError
        if self._depth > DEEPEST or self._count > MAX_ELEMENTS:
            raise _UnfitError
        if self.root is None:
            self.root = "{" + name

    @staticmethod
    def _on_text(text: str) -> None:
        if "\r" in text:
            raise _UnfitError

    def _on_end(self, _name: str) -> None:
        self._depth -= 1

    def _refuse(self, *_: object) -> None:
        raise _UnfitError


# The stored form of a body, and back.

JSON_TAG: Final = f"{{{ns.JSON}}}json"
TEXT_TAG: Final = f"{{{ns.PUBQUEUE}}}text"
"""The element that Spark's writer makes from text."""

WRAPPERS: Final = (JSON_TAG, TEXT_TAG, DATA_TAG)
"""Elements that are wrappers; a body that is one of them is wrapped again, or it would be unwrapped when it is read."""

JSON_START: Final = f"<json xmlns='{ns.JSON}'>".encode()
JSON_END: Final = b"</json>"

_AS_OTHERS_WRITE: Final = JSON_START.replace(b"'", b'"')
_JSON_BEGIN: Final = len(JSON_START)
_JSON_STOP: Final = -len(JSON_END)
_DATA_START: Final = re.compile(
    rb"<data xmlns=(['\"])%b\1(?: type=(['\"])(?P<type>[ !#-%%(-;=-~]*)\2)?"
    rb"(?P<base64> encoding=(['\"])base64\5(?P<form> form='text')?)?>" % ns.PAYLOAD.encode()
)

_STARTS: Final = (JSON_START, _AS_OTHERS_WRITE)
_IS_WRAPPER: Final = re.compile(rb"\s*<(?:[^\s<>/:]+:)?(?:json|text|data)[\s/>]")
_raw_json: Final = msgspec.json.Decoder(msgspec.Raw).decode


class Wrapped(msgspec.Struct, frozen=True, gc=False):
    """The stored form of a body."""

    xml: bytes
    """One XML element."""
    space: str
    """Its namespace."""
    header: str | None = None
    """The item's header `content-type`; None if the element has the type."""


class Body(msgspec.Struct, frozen=True, gc=False):
    """The content of a stored element."""

    data: bytes
    type: str | None
    """The content type; None if the publisher gave none."""
    form: PayloadForm
    """What the element carries: itself, JSON, text or bytes."""

    @property
    def text(self) -> str | None:
        """The body as text, or None if it is bytes."""
        return None if self.form == "bytes" else self.data.decode("utf-8", "replace")


def wrap(
    body: bytes,
    type: str | None = None,  # noqa: A002 - the name of the attribute
    *,
    is_text: bool = False,
) -> Wrapped:
    """Return the stored form of a body; with `is_text`, a body without a type is text if it can be.

    Raises ValueError for a content type with a character that no name has.
    """
    kind = "text" if type is None and is_text else form_of(type)
    if kind == "bytes" or not body:
        return Wrapped(of_bytes(type, body), ns.PAYLOAD)
    if kind == "xml":
        root = root_of(body)
        if root is not None and root not in WRAPPERS:
            return Wrapped(body, root[1:].partition("}")[0], None if type == XML else type)
    content = escaped(body)
    if content is not None and kind == "json" and is_json(body):
        header = None if type == JSON else type
        return Wrapped(b"%b%b</json>" % (JSON_START, content), ns.JSON, header)
    if content is None or len(content) > len(body) * 4 // 3 + ROOM:
        return Wrapped(of_bytes(type, body, is_text=is_utf8(body)), ns.PAYLOAD)
    return Wrapped(of_text(type, content), ns.PAYLOAD)


def unwrap(stored: bytes, header: str | None = None) -> Body:
    """Return the content of a stored element; `header` is the item's header `content-type`.

    An element that is not a wrapper, or a `<data/>` that cannot be decoded, is returned as XML, unchanged.
    """
    return _as_written(stored, header) or at_once(_read_in_steps(stored, header))


def _as_written(stored: bytes, header: str | None) -> Body | None:
    """Return the content of an element that is written as `wrap` writes it; None for any other."""
    if stored.startswith(_STARTS) and stored.endswith(JSON_END):
        if _is_as_written(stored, _JSON_BEGIN, _JSON_STOP):
            text = stored[_JSON_BEGIN:_JSON_STOP]
            return Body(text, JSON if header is None else _type(header, "json", JSON), "json")
    elif (start := _DATA_START.match(stored)) is not None and stored.endswith(_DATA_END):
        return _data(start, stored, header)
    return None


STEP: Final = 1 << 18
"""Bytes of an element that are decoded in one step, which takes a millisecond or two; a multiple of four, as base64 has it."""

_T = TypeVar("_T")


def at_once(steps: Generator[None, None, _T]) -> _T:
    """Take all steps of a generator, and return what it returns."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: _T = end.value
            return found


def unwrap_in_steps(stored: bytes, header: str | None = None) -> Generator[None, None, Body]:
    """Do what `unwrap` does, with a pause after each `STEP` bytes that are decoded: of megabytes that takes as long as many requests."""
    start = _DATA_START.match(stored)
    if start is not None and start["base64"] is not None and stored.endswith(_DATA_END):
        data = yield from _decoded_in_steps(stored, start.end(), len(stored) - len(_DATA_END))
        if data is not None:
            type_ = header if start["type"] is None else start["type"].decode()
            return Body(data, type_, "text" if start["form"] and is_utf8(data) else "bytes")
    elif (found := _as_written(stored, header)) is not None:
        return found
    return (yield from _read_in_steps(stored, header))


def _read_in_steps(stored: bytes, header: str | None) -> Generator[None, None, Body]:
    """Return the content of an element that may be written as others write it."""
    leaf = (yield from _parsed_in_steps(stored)) if _IS_WRAPPER.match(stored) else None
    body = None if leaf is None else carried(*leaf, header)
    return body or Body(stored, xml_type(header), "xml")


def _decoded_in_steps(stored: bytes, begin: int, end: int) -> Generator[None, None, bytes | None]:
    """Return what this part of the element is in base64; None if it is malformed."""
    view, found = memoryview(stored), BytesIO()
    for at in range(begin, end, STEP):
        if at > begin:
            yield
        piece = decoded(view[at : min(at + STEP, end)])
        if piece is None or (at + STEP < end and len(piece) < STEP // 4 * 3):
            return None  # what fills the last group stands before the end
        found.write(piece)
    return found.getvalue()


def carried(
    tag: str, attributes: Mapping[str, str], text: str, header: str | None = None
) -> Body | None:
    """Return the content of a wrapper without children, or None if the element is not a wrapper."""
    if tag == JSON_TAG:
        return Body(text.encode(), _type(header, "json", JSON), "json")
    if tag == TEXT_TAG:
        return Body(text.encode(), _type(header, "text", TEXT), "text")
    if tag != DATA_TAG:
        return None
    data = read_data(attributes, text)
    if data is None:
        return None
    type_ = attributes.get("type", header)
    if isinstance(data, str):
        return Body(data.encode(), type_, "text")
    return Body(data, type_, "bytes")


def is_json(body: bytes) -> bool:
    """Return whether a body is one JSON value (RFC 8259)."""
    try:
        _raw_json(body)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def xml_type(header: str | None) -> str:
    """Return the content type of an item that is XML, with or without its header `content-type`."""
    return _type(header, "xml", XML)


def _type(header: str | None, kind: PayloadForm, usual: str) -> str:
    """Return the type in a header, if the stored content can have that type; else the default."""
    if header is None:
        return usual
    try:
        return header if form_of(header) == kind else usual
    except ValueError:
        return usual


def _is_as_written(stored: bytes, begin: int, end: int) -> bool:
    """Return whether a parser returns this part unchanged; it may be large, and is not copied for that."""
    # three calls, because a generator of them costs as much as all the rest of reading a payload
    return (
        stored.find(b"<", begin, end) < 0
        and stored.find(b"&", begin, end) < 0
        and stored.find(b"\r", begin, end) < 0
    )


def _data(start: re.Match[bytes], stored: bytes, header: str | None) -> Body | None:
    """Return the content of a `<data/>` that is written as `wrap` writes it, and whose start tag was matched."""
    begin, end = start.end(), -len(_DATA_END)
    if not _is_as_written(stored, begin, end):
        return None
    type_ = header if start["type"] is None else start["type"].decode()
    if start["base64"] is None:
        return Body(stored[begin:end], type_, "text")
    data = decoded(memoryview(stored)[begin:end])
    if data is None:
        return None
    return Body(data, type_, "text" if start["form"] and is_utf8(data) else "bytes")


class _NoLeafError(Exception):
    """An element has children, or the document has a DTD."""


class _Leaf:
    """An element without children, as expat reports it."""

    def __init__(self) -> None:
        self.tag = ""
        self.attributes: dict[str, str] = {}
        self.pieces: list[str] = []

    def on_start(self, name: str, attributes: dict[str, str]) -> None:
        if self.tag:
            raise _NoLeafError
        self.tag, self.attributes = "{" + name, attributes

    def refuse(self, *_: object) -> None:
        raise _NoLeafError


def _parsed_in_steps(
    stored: bytes,
) -> Generator[None, None, tuple[str, dict[str, str], str] | None]:
    """Return name, attributes and text of an element without children; None for anything else."""
    leaf = _Leaf()
    parser = expat.ParserCreate("utf-8", namespace_separator="}")
    parser.buffer_text = True
    parser.StartElementHandler = leaf.on_start
    parser.StartDoctypeDeclHandler = leaf.refuse
    parser.CharacterDataHandler = leaf.pieces.append
    view = memoryview(stored)
    try:
        for at in range(0, len(stored), STEP):
            if at:
                yield
            parser.Parse(view[at : at + STEP], at + STEP >= len(stored))
    except (expat.ExpatError, _NoLeafError):
        return None
    return leaf.tag, leaf.attributes, "".join(leaf.pieces)
