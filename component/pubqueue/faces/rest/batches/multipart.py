"""Multipart bodies (RFC 2046): each part is a message, whose headers are read as those of a request."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from pubqueue.faces.rest.batches.entry import Entry, at, bad_entry
from pubqueue.faces.rest.http.problems import ProblemError, bad_request
from pubqueue.faces.rest.items.published import wishes_of

if TYPE_CHECKING:
    from collections.abc import Iterator

MEDIA_TYPE: Final = "multipart/mixed"
MAX_HEAD: Final = 16_384
"""Bytes of the headers of a part."""

ENCODINGS: Final = frozenset({"7bit", "8bit", "binary"})
_BOUNDARY: Final = re.compile(r"[0-9A-Za-z'()+_,\-./:=? ]{0,69}[0-9A-Za-z'()+_,\-./:=?]")
_DELIMITED: Final = re.compile(rb"[ \t]*\r\n")
_FIELD: Final = re.compile(r"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*(.*?)[ \t]*")


def entries_of(body: bytes, boundary: str, most: int) -> list[Entry]:
    """Return the entries.

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
            found.append(_entry(part))
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


def _entry(part: bytes) -> Entry:
    head, body = b"", part
    if part.startswith(b"\r\n"):
        body = part[2:]
    else:
        head, empty, body = part.partition(b"\r\n\r\n")
        if not empty:
            raise bad_request("the headers of the part do not end with an empty line")
    if len(head) > MAX_HEAD:
        raise ProblemError(431, "headers-too-large", f"up to {MAX_HEAD} bytes", limit=MAX_HEAD)
    headers = [_field(line) for line in head.split(b"\r\n")] if head else []
    for name, value in headers:
        small = name.lower()
        if small == "content-transfer-encoding" and value.lower() not in ENCODINGS:
            raise bad_request("Content-Transfer-Encoding is 7bit, 8bit or binary")
        if small == "content-type" and value.lower().startswith("multipart/"):
            raise bad_request("a part is not multipart itself")
    return Entry(wishes_of(headers), body)


def _field(line: bytes) -> tuple[str, str]:
    found = _FIELD.fullmatch(line.decode(errors="surrogateescape"))
    if found is None:
        raise bad_request("a header of the part cannot be read")
    return found[1], found[2]
