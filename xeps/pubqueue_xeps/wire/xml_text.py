"""XML as text: values that a parser returns unchanged, and elements."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from xml.sax.saxutils import escape, quoteattr

from pubqueue_xeps.wire.names import CHANGED, ILLEGAL, BadCharacterError, without
from pubqueue_xeps.wire.ns import XML

if TYPE_CHECKING:
    from collections.abc import Iterator
    from xml.etree.ElementTree import Element


SPACES: Final = {"\n": "&#10;", "\r": "&#13;", "\t": "&#9;"}
"""Escapes for line ends and tabs in attributes, which a parser otherwise reads as spaces."""

RETURN: Final = {"\r": "&#13;"}
"""The escape for a carriage return, which a parser otherwise reads as a line feed."""


NOT_CARRIED: Final = "which XML cannot carry"
NOT_KEPT: Final = "which XMPP servers do not carry unchanged"


def legal(text: str, what: str = "") -> str:
    """Return `text`; raise BadCharacterError if it has a character that XML cannot carry."""
    return without(ILLEGAL, text, what, NOT_CARRIED)


def kept(text: str, what: str = "") -> str:
    """Return `text`; raise BadCharacterError if it has a character that XML or a server does not carry unchanged."""
    return without(CHANGED, text, what, NOT_KEPT)


_REFERENCE: Final = re.compile("&#([0-9]+);")


def kept_element(text: str, what: str = "") -> str:
    """Return an element as `xml_text` writes it; raise BadCharacterError if a parser or a server does not return it as it is.

    `xml_text` writes tabs and line ends in attributes, and carriage returns, as references. Prosody reads them, and writes the
    characters themselves, which the next parser takes for spaces or line feeds.
    """
    if "&#" in text and (found := _REFERENCE.search(text)) is not None:
        why = f"{NOT_KEPT} in XML; as bytes with a content type it arrives as it is"
        raise BadCharacterError(what, chr(int(found[1])), found.start(), why)
    return legal(text, what)


PLAIN: Final = re.compile(r"[\w.:@/ -]*", re.ASCII)


def quote(value: str) -> str:
    """Return the value of an attribute in quotes."""
    if PLAIN.fullmatch(value):  # as nearly all ids are
        return f'"{value}"'
    return quoteattr(value, SPACES)


def content(text: str) -> str:
    """Return text as the content of an element."""
    return escape(text, RETURN)


def attributes(**values: object) -> str:
    """Return attributes with a space before each; None is left out, and _ is written as -."""
    given = ((name.replace("_", "-"), value) for name, value in values.items() if value is not None)
    return "".join(f" {name}={quote(str(value))}" for name, value in given)


# An element as text, with default namespaces, and prefixes only where they are needed. The standard library writes
# `ns0:job`, and Spark's XML functions would make columns with such names.


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
