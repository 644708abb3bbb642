"""Payloads, forms and headers (XEP-0131) as XML, and as text in files."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec
from lxml import etree

from pubqueue.engine.context import Payloads
from pubqueue.faces.xmpp.xml.refusals import StanzaError, bad_request
from pubqueue.faces.xmpp.xml.stanza import escape, quoted
from pubqueue.model.entities import digest
from pubqueue_xeps.wire import ns
from pubqueue_xeps.wire.names import NOT_CARRIED, listed

if TYPE_CHECKING:
    from pubqueue.faces.xmpp.xml.stanza import Element
    from pubqueue.model.entities import Headers


# Payloads and forms as XML: the only place in the component that builds XML trees.
#
# Payloads travel as bytes. A tree is made where meaning counts: to compare two payloads, or to read a
# form. Nothing is fetched, no entity is expanded.

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


# Stanza headers (XEP-0131): a publisher's headers of its items, delivered in their original order.

TAG: Final = ns.tag(ns.SHIM, "headers")
_HEADER: Final = ns.tag(ns.SHIM, "header")


def read(element: Element) -> Headers | StanzaError:
    """Read the headers of a request; the same name may come more than once."""
    found: list[tuple[str, str]] = []
    for child in element.children:
        name = child.get("name")
        if child.tag != _HEADER or not name or child.children:
            return bad_request(
                text="headers may contain only header elements, each with a name and text"
            )
        found.append((name, child.text))
    if element.text.strip():
        return bad_request(text="headers contains text")
    return tuple(found)


def render(headers: Headers) -> str:
    """Return the element, or nothing if there are no headers.

    A server writes a carriage return as it is, and the next parser reads a line feed. So a value that has one is left out, and named, as
    over STOMP; and so is a publisher's own header of that name.
    """
    if not headers:
        return ""
    if left_out := [name for name, value in headers if "\r" in value or name == NOT_CARRIED]:
        kept = [one for one in headers if "\r" not in one[1] and one[0] != NOT_CARRIED]
        headers = (*kept, (NOT_CARRIED, listed(left_out)))
    inner = "".join(
        f'<header name="{quoted(name)}">{escape(value)}</header>' for name, value in headers
    )
    return f'<headers xmlns="{ns.SHIM}">{inner}</headers>'


# Converts payloads from and to text in a file or a form: one XML element, or JSON (XEP-0335).


class UnfitPayloadError(ValueError):
    """The text is not a payload; the message is a sentence with the reason."""


def from_xml(text: str, *, in_any: bool = True) -> tuple[bytes, str]:
    """Return the payload with this XML element, and its namespace; without `in_any` it may be in none.

    Raises:
        UnfitPayloadError: the element is not well-formed, too deep, or in no namespace.

    """
    try:
        root = tree(text.strip().encode())
    except (etree.XMLSyntaxError, UnicodeEncodeError) as problem:
        raise UnfitPayloadError(f"the payload is not an XML element: {problem}") from None
    if root.getroottree().docinfo.internalDTD is not None:
        raise UnfitPayloadError("the payload has a document type, which XMPP forbids")
    space = etree.QName(root).namespace
    if not space and in_any:
        raise UnfitPayloadError(
            "the payload's element needs a namespace, as in <job xmlns='urn:example:job'/>"
        )
    if _depth(root) > DEEPEST:
        raise UnfitPayloadError(f"the payload's elements nest deeper than {DEEPEST}")
    payload = etree.tostring(root, encoding="utf-8", with_tail=False)
    if not space:  # or it would be in that of the element around it
        payload = _NAME.sub(rb'\g<0> xmlns=""', payload, count=1)
    return payload, space or ""


_NAME: Final = re.compile(rb'<[^\s/>]++(?! xmlns="")')
"""The start of an element that does not say that it is in no namespace."""


def from_json(value: object) -> tuple[bytes, str]:
    """Return a payload with the value as JSON, and its namespace (XEP-0335).

    Raises:
        UnfitPayloadError: the value is not JSON, or contains characters that XML does not allow.

    """
    try:
        text = msgspec.json.encode(value).decode()
        payload = f'<json xmlns="{ns.JSON}">{escape(text)}</json>'.encode()
        tree(payload)
    except (TypeError, ValueError, etree.XMLSyntaxError) as problem:
        raise UnfitPayloadError(f"the payload cannot be JSON in XML: {problem}") from None
    return payload, ns.JSON


def from_text(text: str) -> tuple[bytes, str]:
    """Return the payload in a text: XML if it begins with `<`, otherwise JSON.

    Raises:
        UnfitPayloadError: the text is neither.

    """
    if text.lstrip().startswith("<"):
        return from_xml(text)
    try:
        return from_json(msgspec.json.decode(text))
    except (msgspec.DecodeError, RecursionError) as problem:
        raise UnfitPayloadError(
            f"the payload is neither an XML element nor JSON: {problem}"
        ) from None


def to_text(payload: bytes) -> str:
    """Return a payload as text: the JSON of a JSON payload, otherwise the element."""
    root = tree(payload)
    if root.tag == f"{{{ns.JSON}}}json" and not len(root) and not root.attrib:
        return root.text or ""
    return payload.decode()


def _depth(root: etree._Element) -> int:
    """Return the depth of the elements."""
    deepest, level = 0, 0
    for event, _ in etree.iterwalk(root, events=("start", "end")):
        level += 1 if event == "start" else -1
        deepest = max(deepest, level)
    return deepest
