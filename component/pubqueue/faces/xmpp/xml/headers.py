"""Stanza headers (XEP-0131): a publisher's headers of its items, delivered in their original order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.faces.xmpp.refusals import StanzaError, bad_request
from pubqueue.faces.xmpp.xml.text import escape, quoted
from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    from pubqueue.faces.xmpp.xml.stanza import Element
    from pubqueue.model.entities import Headers

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
    """Return the element, or nothing if there are no headers."""
    if not headers:
        return ""
    inner = "".join(
        f'<header name="{quoted(name)}">{escape(value)}</header>' for name, value in headers
    )
    return f'<headers xmlns="{ns.SHIM}">{inner}</headers>'
