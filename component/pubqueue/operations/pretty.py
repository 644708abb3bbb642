"""Payloads in readable form: JSON on several lines, with escaped letters as letters; text; bytes in hexadecimal."""

from __future__ import annotations

import json
import re
import string
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pubqueue_xeps.wire.payloads.content_type import is_json
from pubqueue_xeps.wire.payloads.decoding import header_of
from pubqueue_xeps.wire.payloads.wrapper import escaped, unwrap

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pubqueue.model.entities import Headers


MAX_BYTES: Final = 64 * 1024
"""Bytes of a payload that are put on several lines; a larger one is shown unchanged."""

DEEPEST: Final = 64
"""Levels that are put on several lines; deeper ones are shown unchanged."""

STEP: Final = "  "

DUMPED: Final = 256
"""Bytes of a payload that are shown in hexadecimal."""

SIGNS: Final = frozenset(string.digits + string.ascii_letters + string.punctuation + " ")
"""Characters that are shown next to the bytes in hexadecimal."""

ROW: Final = 16
"""Bytes of a line in hexadecimal."""

_WORDS: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')


_ESCAPE: Final = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\."
)
"""An escape in a string of JSON: two halves of a character, one character, or a backslash and what it is before."""


class Shown(Struct, frozen=True):
    """A payload in readable form."""

    text: str
    """The beginning of it; it may contain any character, and the caller escapes it."""
    cut: bool
    """Whether there is more."""
    words: str
    """The kind of the text: empty for the payload as it is stored, otherwise words such as `3 bytes of image/png, in hexadecimal`."""
    json: bool = False
    """Whether it is JSON on several lines."""


def shown(payload: bytes, headers: Headers, most: int) -> Shown:
    """Return a payload in readable form: its content, or itself if it is XML; up to `most` characters."""
    body = unwrap(payload, header_of(dict(headers)))
    if body.form == "xml":
        text = payload[:most].decode("utf-8", "replace")
        return Shown(text, len(payload) > most, "")
    is_safe = body.form != "bytes" and escaped(body.data) is not None
    plain = body.text if is_safe else _as_text(body.data)
    words = f"{len(body.data)} byte{'' if len(body.data) == 1 else 's'} of {body.type or 'no type'}"
    if plain is None:
        return Shown(_dump(body.data[:DUMPED]), len(body.data) > DUMPED, f"{words}, in hexadecimal")
    lines = _json(plain) if is_json(body.type) else None
    if lines is not None:
        return Shown(lines[:most], len(lines) > most, words, json=True)
    return Shown(plain[:most], len(plain) > most, words)


def _as_text(data: bytes) -> str | None:
    """Return bytes as text if a person can read it; line ends of other systems are converted."""
    try:
        text = data.decode().replace("\r\n", "\n")
    except UnicodeDecodeError:
        return None
    readable_ = all(sign.isprintable() or sign in "\n\t" for sign in text[:MAX_BYTES])
    return text if readable_ and len(text) <= MAX_BYTES else None


def _dump(data: bytes) -> str:
    """Return bytes in hexadecimal, with the printable ones next to them."""
    lines = []
    for begin in range(0, len(data), ROW):
        row = data[begin : begin + ROW]
        signs = "".join(chr(byte) if chr(byte) in SIGNS else "." for byte in row)
        lines.append(f"{begin:06x}  {row.hex(' '):<{ROW * 3}} {signs}")
    return "\n".join(lines)


def readable(payload: bytes) -> str | None:
    """Return the JSON of a payload, on several lines; None if it has none, or is very large.

    Numbers and repeated names stay as they were published: only the white space between them changes, and escapes of characters that a
    person can read, such as those of accented letters, are these characters.
    """
    if len(payload) > MAX_BYTES:
        return None
    body = unwrap(payload)
    return _json(body.text or "") if body.form == "json" else None


def _json(text: str) -> str | None:
    if len(text) > MAX_BYTES:
        return None
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return None
    words = _WORDS.findall(text)
    return "".join(_lines(words)) if _depth(words) <= DEEPEST else None


def _depth(words: list[str]) -> int:
    level = deepest = 0
    for word in words:
        level += (word in "{[") - (word in "}]")
        deepest = max(deepest, level)
    return deepest


def _lines(words: list[str]) -> Iterator[str]:
    """Yield the words of JSON, with line breaks and blanks between them."""
    level, before = 0, ""
    for word in words:
        if word in "}]":
            level -= 1
            if before not in "{[":
                yield "\n" + STEP * level
        elif before and before in "{[,":
            yield "\n" + STEP * level
        yield ": " if word == ":" else _ESCAPE.sub(_read, word)
        level += word in "{["
        before = word


def _read(escape: re.Match[str]) -> str:
    """Return the character of an escape; the escape itself if the character cannot be read, or means something in a string."""
    if not escape[0].startswith("\\u"):
        return escape[0]
    sign: str = json.loads(f'"{escape[0]}"')
    return sign if sign.isprintable() and sign not in {'"', "\\"} else escape[0]
