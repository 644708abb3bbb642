"""The element `<data/>`, which carries text or bytes with their content type.

    <data xmlns='urn:x-pubqueue:data:0' type='text/csv'>a,b</data>
    <data xmlns='urn:x-pubqueue:data:0' type='image/png' encoding='base64'>iVBORw0KGgo=</data>

Text that passes every XML parser and server unchanged is sent as it is, everything else in base64.
"""

from __future__ import annotations

import binascii
import re
from typing import TYPE_CHECKING, Final

from pubqueue_xeps.wire.ns import PAYLOAD
from pubqueue_xeps.wire.xml_escape import quote

if TYPE_CHECKING:
    from collections.abc import Mapping

TAG: Final = f"{{{PAYLOAD}}}data"
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

_SPACE: Final = re.compile(r"[ \t\r\n]+")


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
    return b"<data xmlns='%b'%b>%b</data>" % (PAYLOAD.encode(), _type(type), content)


def of_bytes(type: str | None, body: bytes) -> bytes:  # noqa: A002 - the name of the attribute
    """Return the element that carries bytes."""
    content = binascii.b2a_base64(body, newline=False)
    return b"<data xmlns='%b'%b encoding='base64'>%b</data>" % (
        PAYLOAD.encode(),
        _type(type),
        content,
    )


def read(attributes: Mapping[str, str], text: str) -> str | bytes | None:
    """Return the text or the bytes that an element carries; None if they cannot be decoded."""
    encoding = attributes.get("encoding")
    if encoding is None:
        return text
    if encoding != BASE64:
        return None
    return decoded(_SPACE.sub("", text))


def decoded(text: str | bytes) -> bytes | None:
    """Decode base64 without line breaks; return None if it is malformed."""
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except ValueError:  # not base64, or not even ASCII
        return None


def _type(type: str | None) -> bytes:  # noqa: A002
    return b"" if type is None else b" type=" + quote(type).encode()


def _is_unicode(body: bytes) -> bool:
    if body.startswith(BOM) or any(each in body for each in NO_CHARACTERS):
        return False
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True
