"""Payloads and forms as XML: the only place in the component that builds XML trees.

Payloads travel as bytes. A tree is made where meaning counts: to compare two payloads, or to read a
form. Nothing is fetched, no entity is expanded.
"""

from __future__ import annotations

from typing import Final

from lxml import etree

from pubqueue.engine.facts.context import Payloads
from pubqueue.model.entities import digest

DEEPEST: Final = 100
"""Levels of elements in a payload. Deeper ones break the readers of workers, so none is stored."""

_PARSER: Final = etree.XMLParser(
    resolve_entities=False,
    no_network=True,
    load_dtd=False,
    huge_tree=False,
    remove_comments=True,  # RFC 6120 11.1: neither these
    remove_pis=True,  # nor these are part of the meaning
)


def tree(document: bytes) -> etree._Element:
    """Return the document as a tree.

    Raises:
        etree.XMLSyntaxError: it is not well-formed, or exceeds libxml2's bounds.

    """
    return etree.fromstring(document, _PARSER)


def same(first: bytes, second: bytes) -> bool:
    """Return whether two payloads mean the same: names, attributes, text and order, not the prefixes.

    Payloads that libxml2 does not read, such as one with a name of 50,000 characters, are the same
    only byte for byte.
    """
    if first == second:
        return True
    try:
        return _meaning(first) == _meaning(second)
    except etree.XMLSyntaxError:
        return False


def fingerprint(document: bytes) -> bytes:
    """Return the digest of what a payload means: one for all that are the same."""
    try:
        return digest(repr(_meaning(document)).encode("utf-8", "surrogatepass"))
    except etree.XMLSyntaxError:
        return digest(document)


def space_of(document: bytes) -> str:
    """Return the namespace of a payload, empty if it is in none or cannot be read."""
    try:
        return etree.QName(tree(document)).namespace or ""
    except etree.XMLSyntaxError:
        return ""


def _meaning(document: bytes) -> list[tuple[object, ...]]:
    """Return the tree as a list; libxml2's canonical form fails on relative names, xmlns="jobs"."""
    return [
        (node.tag, sorted(node.attrib.items()), len(node), node.text or "", node.tail or "")
        for node in tree(document).iter()
    ]


PAYLOADS: Final = Payloads(same, fingerprint, space_of)
