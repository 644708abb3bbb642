"""Converts payloads from and to text in a file or a form: one XML element, or JSON (XEP-0335)."""

from __future__ import annotations

import msgspec
from lxml import etree

from pubqueue.faces.xmpp.xml.payload import DEEPEST, tree
from pubqueue.faces.xmpp.xml.text import escape
from pubqueue_xeps.wire import ns


class UnfitPayloadError(ValueError):
    """The text is not a payload; the message is a sentence with the reason."""


def from_xml(text: str) -> tuple[bytes, str]:
    """Return the payload with this XML element, and its namespace.

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
    if not space:
        raise UnfitPayloadError(
            "the payload's element needs a namespace, as in <job xmlns='urn:example:job'/>"
        )
    if _depth(root) > DEEPEST:
        raise UnfitPayloadError(f"the payload's elements nest deeper than {DEEPEST}")
    return etree.tostring(root, encoding="utf-8", with_tail=False), space


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
    except msgspec.DecodeError as problem:
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
