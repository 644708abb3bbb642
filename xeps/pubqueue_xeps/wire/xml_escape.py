"""Escapes text so that XML can carry it and a parser returns it unchanged."""

from __future__ import annotations

import re
from typing import Final
from xml.sax.saxutils import escape, quoteattr

# XML 1.0 section 2.2, production Char. A lone surrogate is not a character.
ILLEGAL: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML cannot carry; the server ends the stream if there is one."""

SPACES: Final = {"\n": "&#10;", "\r": "&#13;", "\t": "&#9;"}
"""Escapes for line ends and tabs in attributes, which a parser otherwise reads as spaces."""

RETURN: Final = {"\r": "&#13;"}
"""The escape for a carriage return, which a parser otherwise reads as a line feed."""


def legal(text: str) -> str:
    """Return `text`; raise ValueError if it has a character that XML cannot carry."""
    bad = ILLEGAL.search(text)
    if bad:
        raise ValueError(
            f"has the character U+{ord(bad[0]):04X} at position {bad.start()}, which XML cannot carry"
        )
    return text


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
