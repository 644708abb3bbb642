"""Skips stanzas that expat would read too slowly: it builds a name with the whole namespace for every element and attribute.

If half of a stanza is one namespace and the other half elements in it, the time grows with the product. So bytes are searched for long
namespaces before expat parses them. A stanza that declares one is skipped tag by tag; only its head is read, for the answer.
"""

from __future__ import annotations

import re
from typing import Final
from xml.parsers import expat

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
