"""A payload as a test writes it down, and as it travels: an element, or any value as JSON (XEP-0335)."""

from __future__ import annotations

from xml.etree.ElementTree import Element, fromstring

import msgspec

from pubqueue_xeps.ns import JSON, PUBSUB
from pubqueue_xeps.quoting import content
from pubqueue_xeps.xml_text import xml_text


def xml_of(payload: object) -> bytes:
    """Return the payload as it stands in an item.

    Raises:
        TypeError, ValueError: neither XML nor JSON has a form for it.

    """
    if isinstance(payload, Element):
        return xml_text(payload, PUBSUB).encode()
    text = msgspec.json.encode(payload).decode()
    return f"<json xmlns='{JSON}'>{content(text)}</json>".encode()


def element_of(payload: object) -> Element | None:
    """Return the payload as a worker receives it; None has none.

    Raises:
        TypeError, ValueError: neither XML nor JSON has a form for it.

    """
    return None if payload is None else fromstring(xml_of(payload))  # noqa: S314  written just now
