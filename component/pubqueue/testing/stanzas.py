"""A stanza as it is passed on: its start tag is rewritten, the rest is unchanged byte for byte."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import unescape
from typing import Final
from xml.sax.saxutils import quoteattr

_START: Final = re.compile(r"""<([a-z]+)((?:\s+[\w:.-]+\s*=\s*(?:'[^']*'|"[^"]*"))*)\s*(/?>)""")
_ATTRIBUTE: Final = re.compile(r"""([\w:.-]+)\s*=\s*(?:'([^']*)'|"([^"]*)")""")


@dataclass(frozen=True, slots=True)
class Stanza:
    """A first-level element of a stream; `rest` begins with the end of its start tag."""

    name: str
    attributes: dict[str, str]
    rest: str

    @property
    def to(self) -> str:
        """The addressee; empty: the sender's own server."""
        return self.attributes.get("to", "")

    @property
    def type(self) -> str:
        """The attribute, empty if there is none."""
        return self.attributes.get("type", "")

    @property
    def asks(self) -> bool:
        """Whether it has to be answered (RFC 6120 8.2.3)."""
        return self.name == "iq" and self.type in {"get", "set"}

    def written(self) -> bytes:
        """Return it as it is sent on a stream of any namespace."""
        tag = "".join(f" {name}={quoteattr(value)}" for name, value in self.attributes.items())
        return f"<{self.name}{tag}{self.rest}".encode()

    def refused(self) -> bytes:
        """Return the error for an addressee that is not connected (RFC 6120 8.3)."""
        address = "".join(
            f" {name}={quoteattr(self.attributes[other])}"
            for name, other in (("id", "id"), ("from", "to"), ("to", "from"))
            if other in self.attributes
        )
        return (
            f"<{self.name} type='error'{address}><error type='cancel'>"
            "<service-unavailable xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/>"
            f"</error></{self.name}>"
        ).encode()


def read(raw: str) -> Stanza:
    """Read an element whose name has no prefix; its own declaration of a default namespace is dropped.

    Raises:
        ValueError: its name has a prefix.

    """
    found = _START.match(raw)
    if found is None:
        raise ValueError(f"not a stanza that can be passed on: {raw[:80]}")
    attributes = {
        name: unescape(single or double)
        for name, single, double in _ATTRIBUTE.findall(found[2])
        if name != "xmlns"
    }
    return Stanza(found[1], attributes, found[3] + raw[found.end() :])
