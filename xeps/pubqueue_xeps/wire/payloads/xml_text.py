"""Writes an element as text with default namespaces, and prefixes only where they are needed.

The standard library writes `ns0:job`, and Spark's XML functions would make columns with such names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pubqueue_xeps.wire.ns import XML
from pubqueue_xeps.wire.xml_escape import content, quote

if TYPE_CHECKING:
    from collections.abc import Iterator
    from xml.etree.ElementTree import Element


def xml_text(element: Element, outer: str = "") -> str:
    """Return the element as text, inside the default namespace `outer` and without its tail.

    Without `outer`, the text is a complete document.
    """
    return "".join(_write(element, outer))


def _write(element: Element, outer: str) -> Iterator[str]:
    space, name = _split(element.tag)
    yield f"<{name}"
    if space != outer:
        yield f" xmlns={quote(space)}"
    for number, (key, value) in enumerate(element.items()):
        yield _attribute(key, value, f"n{number}")
    if not len(element) and not element.text:
        yield "/>"
        return
    yield f">{content(element.text or '')}"
    for child in element:
        yield from _write(child, space)
        yield content(child.tail or "")
    yield f"</{name}>"


def _attribute(key: str, value: str, prefix: str) -> str:
    space, name = _split(key)
    if not space:
        return f" {name}={quote(value)}"
    if space == XML:
        return f" xml:{name}={quote(value)}"
    return f" xmlns:{prefix}={quote(space)} {prefix}:{name}={quote(value)}"


def _split(name: str) -> tuple[str, str]:
    space, _, local = name.rpartition("}")
    return space.removeprefix("{"), local
