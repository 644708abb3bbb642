"""Stanzas that expat must not see: for every element and attribute it makes a name of the whole namespace.

Half of a stanza for one namespace, and half for elements in it, cost time by the product of both. So the bytes that
expat is going to parse are searched for long namespaces first, and a stanza that declares one is passed over tag by tag:
only its head is read, for the answer.
"""

from __future__ import annotations

import re
from typing import Final
from xml.parsers import expat

MAX_NAMESPACE_LENGTH: Final = 256
"""Bytes of a namespace, as they are written."""

MAX_BENEATH: Final = 50_000
"""Elements of a stanza below the roots of payloads."""

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
    """What comes declares a namespace that is too long."""


def long_namespace(data: bytes) -> int | None:
    """Return where the first tag begins that declares a namespace which is too long, if one does."""
    at = 0
    while (found := _LONG.search(data, at)) is not None:
        begin = data.rfind(b"<", 0, found.start())
        if begin >= 0 and _IN_A_TAG.fullmatch(data, begin, found.start()):
            return begin
        at = found.end()  # the same words in a text
    return None


class PassedOver:
    """A stanza of which nothing is looked at but the tags that are called as it is. It begins with the first tag of the buffer."""

    def __init__(self) -> None:
        self.begin = 0
        self._at = 0
        self._depth = 0
        self._head = b""
        self._tags = _ANY

    def end_in(self, buffer: bytes) -> int | None:
        """Return where the stanza ends, None if that has not come; the buffer begins as it did the last time."""
        if not self._head and not self._read_head(buffer):
            return None
        if self._tags is not _ANY and b"<!" in buffer:
            self._tags, self._at, self._depth = _ANY, self.begin, 0  # such a tag may be none
        for token in self._tags.finditer(buffer, self._at):
            self._at = token.end()
            if token["end"]:
                self._depth -= 1
            elif token["end"] is not None and not token[0].endswith(b"/>"):
                self._depth += 1
            if self._depth == 0:
                return self._at
        if self._tags is not _ANY:  # what begins before the last `<` is known
            self._at = max(self._at, buffer.rfind(b"<", self._at))
        return None

    def _read_head(self, buffer: bytes) -> bool:
        """Take the stanza's own tag, if it is there."""
        for token in _ANY.finditer(buffer):
            name = _NAME.match(token[0])
            if name is not None and token["end"] is not None:
                self.begin = self._at = token.start()
                self._head = token[0]
                self._tags = re.compile(_TAG % (re.escape(name[1]) + rb"(?=[\s/>])"), re.VERBOSE)
                return True
        return False

    def head(self, inherited: dict[str, str]) -> tuple[str, dict[str, str]]:
        """Return tag and attributes of the stanza itself; the stream's own namespace where it declares none."""
        found: list[tuple[str, dict[str, str]]] = []
        parser = expat.ParserCreate(encoding="utf-8")
        parser.StartElementHandler = lambda name, attributes: found.append((name, attributes))
        empty = self._head if self._head.endswith(b"/>") else self._head[:-1] + b"/>"
        parser.Parse(empty, True)  # noqa: FBT003  # expat's own signature
        ((name, attributes),) = found
        space = attributes.get("xmlns", inherited.get("", ""))
        return f"{space} {name}" if space else name, attributes
