"""Which XML bodies may be stored unchanged because they mean the same in every stanza."""

from __future__ import annotations

from typing import Final
from xml.parsers import expat

DEEPEST: Final = 100
"""The maximum depth of nested elements."""

MAX_ELEMENTS: Final = 50_000

MAX_NAMESPACE_LENGTH: Final = 256
"""The maximum length of a namespace in characters; a parser copies it for each element, so long ones are expensive."""


def root_of(body: bytes) -> str | None:
    """Return the name, `{namespace}name`, of the element that the body is, or None if it may not be stored unchanged.

    It is in a namespace, in UTF-8, with nothing before or after it, and has no DTD, comment, CDATA or instruction. None
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
        parser = expat.ParserCreate("utf-8", namespace_separator="}")
        parser.StartNamespaceDeclHandler = self._on_namespace
        parser.StartElementHandler = self._on_start
        parser.EndElementHandler = self._on_end
        parser.XmlDeclHandler = parser.StartDoctypeDeclHandler = self._refuse
        parser.CommentHandler = parser.ProcessingInstructionHandler = self._refuse
        parser.StartCdataSectionHandler = self._refuse
        parser.Parse(body, True)  # noqa: FBT003 - expat's own signature

    def _on_namespace(self, prefix: str | None, space: str | None) -> None:
        if space is not None and len(space) > MAX_NAMESPACE_LENGTH:
            raise _UnfitError
        if self.root is None and prefix is None:
            self._inherits = False

    def _on_start(self, name: str, _attributes: dict[str, str]) -> None:
        self._depth += 1
        self._count += 1
        bare = "}" not in name
        if bare and (self.root is None or self._inherits):
            raise _UnfitError
        if self._depth > DEEPEST or self._count > MAX_ELEMENTS:
            raise _UnfitError
        if self.root is None:
            self.root = "{" + name

    def _on_end(self, _name: str) -> None:
        self._depth -= 1

    def _refuse(self, *_: object) -> None:
        raise _UnfitError
