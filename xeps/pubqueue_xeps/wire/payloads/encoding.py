"""From a payload as people have it to the XML that travels.

An `Element` stays as it is. Any other value goes as JSON in `<json xmlns='urn:xmpp:json:0'>` (XEP-0335), as
`msgspec.json.encode` writes it: dict, list, str, int, float, bool, None, dataclasses and msgspec structs, times, UUIDs,
decimals and enumerations; bytes as a string in base64. `msgspec.Raw` is JSON already. The keys of a dict and what is in a set are
sorted, so that two payloads that are equal are written the same: an item that is published again is then the same item.
"""

from __future__ import annotations

from typing import Final
from xml.etree.ElementTree import Element, iselement

import msgspec

from pubqueue_xeps.wire.ns import JSON, PUBSUB
from pubqueue_xeps.wire.payloads.xml_text import xml_text
from pubqueue_xeps.wire.xml_escape import ILLEGAL, content

START: Final = f"<json xmlns='{JSON}'>"
END: Final = "</json>"


def written(payload: object) -> str:
    """Return the payload as the XML of an item.

    Raises TypeError for what neither XML nor JSON has a form for, ValueError for what XML cannot carry.
    """
    if _is_element(payload):
        return _xml(payload)
    return f"{START}{content(json_text(payload))}{END}"


def json_text(value: object) -> str:
    """Return a value as JSON without characters that XML forbids; raises TypeError or ValueError."""
    try:
        text = msgspec.json.encode(value, order="deterministic").decode()
    except UnicodeError:
        raise ValueError("has half a surrogate pair, which is no character") from None
    except RecursionError:
        raise ValueError("nests too deep, or holds itself") from None
    except TypeError as error:
        raise TypeError(f"has no form in JSON: {error}") from None
    # within strings alone, where JSON can name what XML cannot carry
    return ILLEGAL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _is_element(payload: object) -> bool:
    # lxml's are none of the standard library's, and many things have a tag
    return isinstance(payload, Element) or (iselement(payload) and hasattr(payload, "makeelement"))


def _xml(payload: object) -> str:
    assert isinstance(payload, Element) or iselement(payload), "an element"
    try:
        return xml_text(payload, PUBSUB)
    except (TypeError, AttributeError):  # a number, for example, in place of an element's text
        raise TypeError("has a name, text or attribute that is no str") from None
