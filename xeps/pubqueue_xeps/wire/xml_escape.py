"""Text as XML can carry it, and as it comes out of a parser unchanged."""

from __future__ import annotations

import re
from typing import Final
from xml.sax.saxutils import escape, quoteattr

# XML 1.0 section 2.2, production Char. A lone surrogate is no character.
ILLEGAL: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML has no way to write: one of them, and the server ends the stream."""

SPACES: Final = {"\n": "&#10;", "\r": "&#13;", "\t": "&#9;"}
"""A parser reads a line end or tab in an attribute as a space, unless it is written so."""

RETURN: Final = {"\r": "&#13;"}
"""A parser reads a carriage return as a line feed, unless it is written so."""


def legal(text: str) -> str:
    """Return `text`; raises ValueError when XML has no way to write one of its characters."""
    bad = ILLEGAL.search(text)
    if bad:
        raise ValueError(
            f"has the character U+{ord(bad[0]):04X} at position {bad.start()}, which XML cannot carry"
        )
    return text


PLAIN: Final = re.compile(r"[\w.:@/ -]*", re.ASCII)


def quote(value: str) -> str:
    """Return the value of an attribute, in its quotes."""
    if PLAIN.fullmatch(value):  # as nearly all ids are
        return f'"{value}"'
    return quoteattr(value, SPACES)


def content(text: str) -> str:
    """Return text as it stands inside an element."""
    return escape(text, RETURN)


def attributes(**values: object) -> str:
    """Return attributes with a space before each; what is None is left out, and _ is written as -."""
    given = ((name.replace("_", "-"), value) for name, value in values.items() if value is not None)
    return "".join(f" {name}={quote(str(value))}" for name, value in given)
