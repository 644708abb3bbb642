"""Encodes a payload, from a Python value to XML.

An `Element` stays as it is. Any other value goes as JSON in `<json xmlns='urn:xmpp:json:0'>` (XEP-0335), as
`msgspec.json.encode` writes it: dict, list, str, int, float, bool, None, dataclasses and msgspec structs, times, UUIDs,
decimals and enumerations; bytes as a string in base64. `msgspec.Raw` is JSON already. Keys of a dict and members of a
set are sorted, so that equal payloads are written the same: an item that is published again is then the same item.
"""

from __future__ import annotations

from typing import Final
from xml.etree.ElementTree import Element, iselement

import msgspec

from pubqueue_xeps.wire.ns import JSON, PUBSUB
from pubqueue_xeps.wire.payloads.content_type import XML, form_of, other_charset
from pubqueue_xeps.wire.payloads.wrapper import Wrapped, wrap
from pubqueue_xeps.wire.payloads.xml_text import xml_text
from pubqueue_xeps.wire.xml_escape import ILLEGAL, content

START: Final = f"<json xmlns='{JSON}'>"
END: Final = "</json>"


def written(payload: object) -> str:
    """Return the payload as the XML of an item.

    Raises TypeError for a value that has no form in XML or JSON, ValueError for one that XML cannot carry.
    """
    if isinstance(payload, Wrapped):
        return payload.xml.decode()
    if _is_element(payload):
        return _xml(payload)
    return f"{START}{content(json_text(payload))}{END}"


def typed(payload: object, type: str) -> Wrapped:  # noqa: A002 - the name of the attribute
    """Return the XML of a str, bytes or an element with its content type.

    Raises TypeError for any other value, and ValueError for a value that the type does not fit.
    """
    if not isinstance(type, str):
        raise TypeError(f"type is {type!r}; it takes a content type, such as 'text/csv'")
    if isinstance(payload, str):
        return wrap(_in_utf8(payload, type), type)
    if isinstance(payload, (bytes, bytearray, memoryview)):
        return wrap(bytes(payload), type)
    if not _is_element(payload):
        name = payload.__class__.__name__
        raise TypeError(f"a payload of type {type!r} is a str, bytes or an Element, not {name}")
    if form_of(type) != "xml":
        raise ValueError(f"an Element is XML, and {type!r} is another type")
    space = getattr(payload, "tag", "")[1:].partition("}")[0]
    return Wrapped(_xml(payload).encode(), space, None if type == XML else type)


def _in_utf8(text: str, type: str) -> bytes:  # noqa: A002
    if other_charset(type) is not None:
        raise ValueError(f"a str is sent in UTF-8, and {type!r} names another charset; send bytes")
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ValueError(
            "the payload has half a surrogate pair, which is not a character"
        ) from None


def json_text(value: object) -> str:
    """Return a value as JSON without characters that XML forbids; raises TypeError or ValueError."""
    try:
        text = msgspec.json.encode(value, order="deterministic").decode()
    except UnicodeError:
        raise ValueError("has half a surrogate pair, which is not a character") from None
    except RecursionError:
        raise ValueError("is nested too deeply, or contains itself") from None
    except TypeError as error:
        raise TypeError(f"has no form in JSON: {error}") from None
    # only within strings, where JSON can escape what XML cannot carry
    return ILLEGAL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _is_element(payload: object) -> bool:
    # lxml's are none of the standard library's, and many things have a tag
    return isinstance(payload, Element) or (iselement(payload) and hasattr(payload, "makeelement"))


def _xml(payload: object) -> str:
    assert isinstance(payload, Element) or iselement(payload), "an element"
    try:
        return xml_text(payload, PUBSUB)
    except (TypeError, AttributeError):  # a number, for example, in place of an element's text
        raise TypeError("has a name, text or attribute that is not a str") from None
