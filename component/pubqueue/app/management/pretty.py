"""Payloads as people read them: JSON on several lines, with every word of it as it was published."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree as ET

from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    from collections.abc import Iterator

JSON: Final = f"{{{ns.JSON}}}json"
"""The element that carries JSON (XEP-0335)."""

MAX_BYTES: Final = 64 * 1024
"""Bytes of a payload that are put on several lines; a larger one is shown as it is."""

DEEPEST: Final = 64
"""Levels that are put on several lines; what nests deeper is shown as it is."""

STEP: Final = "  "

_WORDS: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')


def readable(payload: bytes) -> str | None:
    """Return the JSON that a payload carries, on several lines; None if it carries none, or is very large.

    Numbers, names that come twice and escapes stay as they were published: only blanks between them change.
    """
    if len(payload) > MAX_BYTES:
        return None
    try:
        root = ET.fromstring(payload)  # noqa: S314  # the stream has let it in: it has no document type
        if root.tag != JSON or len(root):
            return None
        text = root.text or ""
        json.loads(text)
    except (ET.ParseError, ValueError, RecursionError):
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
        yield ": " if word == ":" else word
        level += word in "{["
        before = word
