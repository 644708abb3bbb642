"""XML bodies: which may be stored as the element that they are, and mean the same in every stanza."""

from __future__ import annotations

from typing import Final
from xml.parsers import expat

DEEPEST: Final = 100
"""Elements within each other."""

MAX_ELEMENTS: Final = 50_000

MAX_NAMESPACE_LENGTH: Final = 256
"""Characters of a namespace. A parser makes a name of all of it for each element, so long ones cost much."""


def root_of(body: bytes) -> str | None:
    """Return the name of the element, `{namespace}name`, if the body is exactly one that may be stored as it is; else None.

    It is in a namespace, in UTF-8, with nothing before or behind it, and has no DTD, comment, CDATA or instruction.
    It means the same wherever it is put: no element of it would inherit a default namespace from outside. At
    most `DEEPEST` levels, `MAX_ELEMENTS` elements, and namespaces of at most `MAX_NAMESPACE_LENGTH` characters.
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
    """The body has something that no payload may have."""


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
