"""An element as text, as short as people write it: default namespaces, no prefix where none is needed.

The standard library writes `ns0:job`, and Spark's XML functions would make columns of such names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from xml.sax.saxutils import escape, quoteattr

if TYPE_CHECKING:
    from collections.abc import Iterator
    from xml.etree.ElementTree import Element

XML: Final = "http://www.w3.org/XML/1998/namespace"
# a parser would read a carriage return as a line feed
RETURN: Final = {"\r": "&#13;"}


def xml_text(element: Element) -> str:
    """Return the element as a document of its own; its tail is not part of it."""
    return "".join(_write(element, ""))


def _write(element: Element, outer: str) -> Iterator[str]:
    space, name = _split(element.tag)
    yield f"<{name}"
    if space != outer:
        yield f" xmlns={quoteattr(space)}"
    for number, (key, value) in enumerate(element.items()):
        yield _attribute(key, value, f"n{number}")
    if not len(element) and not element.text:
        yield "/>"
        return
    yield f">{escape(element.text or '', RETURN)}"
    for child in element:
        yield from _write(child, space)
        yield escape(child.tail or "", RETURN)
    yield f"</{name}>"


def _attribute(key: str, value: str, prefix: str) -> str:
    space, name = _split(key)
    if not space:
        return f" {name}={quoteattr(value, RETURN)}"
    if space == XML:
        return f" xml:{name}={quoteattr(value, RETURN)}"
    return f" xmlns:{prefix}={quoteattr(space)} {prefix}:{name}={quoteattr(value, RETURN)}"


def _split(name: str) -> tuple[str, str]:
    space, _, local = name.rpartition("}")
    return space.removeprefix("{"), local
