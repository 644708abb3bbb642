"""Payloads and forms as XML: the only place in the component that builds XML trees.

Payloads travel as bytes. A tree is made where meaning counts: to compare two payloads, or to read a
form. Nothing is fetched, no entity is expanded.
"""

from __future__ import annotations

from typing import Final

from lxml import etree

DEEPEST: Final = 100
"""Levels of elements in a payload. Deeper ones break the readers of workers, so none is stored."""

_PARSER: Final = etree.XMLParser(
    resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, remove_comments=True
)


def tree(document: bytes) -> etree._Element:
    """Return the document as a tree.

    Raises:
        etree.XMLSyntaxError: it is not well-formed, or exceeds libxml2's bounds.

    """
    return etree.fromstring(document, _PARSER)


def same(first: bytes, second: bytes) -> bool:
    """Say whether two payloads mean the same (Canonical XML 2.0).

    What libxml2 will not read, such as a name of 50,000 characters, is the same only byte for byte.
    """
    if first == second:
        return True
    try:
        return _canonical(first) == _canonical(second)
    except etree.XMLSyntaxError:
        return False


def _canonical(document: bytes) -> bytes:
    # version 2.0: libxml2's own writer of 1.0 fails on relative namespaces, such as xmlns="jobs"
    return etree.tostring(tree(document), method="c14n2")
