"""Items to publish: their payloads as XML, the request that publishes one, and its result.

An `Element` stays as it is. Any other value goes as JSON in `<json xmlns='urn:xmpp:json:0'>` (XEP-0335), as
`msgspec.json.encode` writes it: dict, list, str, int, float, bool, None, dataclasses and msgspec structs, times, UUIDs,
decimals and enumerations; bytes as a string in base64. `msgspec.Raw` is JSON already. Keys of a dict and members of a
set are sorted, so that equal payloads are written the same: an item that is published again is then the same item.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import TYPE_CHECKING, Final
from uuid import UUID
from xml.etree.ElementTree import Element, iselement

import msgspec

from pubqueue_xeps.wire.names import ILLEGAL, BadCharacterError, checked
from pubqueue_xeps.wire.ns import JSON, PUBSUB
from pubqueue_xeps.wire.payloads.content_type import HEADER, XML, form_of, other_charset
from pubqueue_xeps.wire.payloads.wrapper import Wrapped, wrap
from pubqueue_xeps.wire.requests import IqRequest, publishing
from pubqueue_xeps.wire.xml_text import content, kept_element, legal, xml_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue_xeps.wire.joins import Awaited, Join
    from pubqueue_xeps.wire.times import When

    Carry = Callable[[Mapping[str, str] | None], Mapping[str, str]]
    """Called at each publish with its headers; returns the headers to send."""


@dataclass(frozen=True, slots=True)
class Published:
    """An item that the service has confirmed."""

    node: str
    id: str
    duplicate: bool | None = None
    """Whether an item with this id and payload already existed, or was done within the node's `dedup_window`; this
    publish then changed nothing. None: unknown, because the service does not report it, or because an earlier attempt
    of this publish may have been the first."""
    dead: str | None = None
    """The reason why the item, which already existed, is dead; empty if none was given. None: it is not dead. No worker
    gets a dead item until an owner redrives it."""
    service: str | None = field(default=None, compare=False)
    """The service that has it; None over HTTP."""


@dataclass(frozen=True, slots=True)
class Retracted:
    """The result of cancelling an item, as the service confirmed it."""

    node: str
    id: str
    there: bool | None
    """Whether the item was in the node, and is now deleted. False: it was done before, or never existed. None: it is
    gone, but it is unknown whether this retract deleted it, because an earlier attempt was not answered."""
    locked: bool | None
    """Whether the item was locked to a worker. That worker is notified (`item.lock_lost`), and its own retract is
    refused. None: unknown, because the service does not report it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewItem:
    """One of many items to publish at once, with its own arguments, as `publish` takes them."""

    payload: object
    id: str | None = None
    priority: int | None = None
    delay: When | None = None
    ttl: When | None = None
    headers: Mapping[str, str] | None = None
    group: str | None = None
    type: str | None = None
    """The content type of a payload that is a str, bytes or an Element."""
    hold: Awaited | None = None
    joins: Join | None = None
    join: bool | None = None
    """Whether it waits for members, which are added later. `Publisher.open_join` publishes it."""


def wrapped(new: NewItem) -> NewItem:
    """Return the item with its typed payload in the form that is sent, and the type in its headers if needed.

    Raises TypeError or ValueError for a payload that cannot have this type.
    """
    if new.type is None:
        return new
    payload, headers = typed(new.payload, new.type), new.headers
    if headers is None or isinstance(headers, Mapping):  # else it is refused with the other headers
        headers = {name: value for name, value in (headers or {}).items() if not _is_type(name)}
        headers |= {} if payload.header is None else {HEADER: payload.header}
    return replace(new, payload=payload, headers=headers, type=None)


def _is_type(name: object) -> bool:
    return isinstance(name, str) and name.lower() == HEADER


def carrying(new: NewItem, carry: Carry | None) -> NewItem:
    """Return the item with the headers to send."""
    return new if carry is None else replace(new, headers=carry(new.headers))


def new_id() -> str:
    """Return a unique id that sorts by time: a UUID of version 7 (RFC 9562 5.7)."""
    milliseconds = time.time_ns() // 1_000_000 & (1 << 48) - 1
    return str(
        UUID(
            int=milliseconds << 80
            | 7 << 76
            | secrets.randbits(12) << 64
            | 2 << 62
            | secrets.randbits(62)
        )
    )


# From a value to XML.

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
    """Return a value as JSON without characters that XML forbids; raises TypeError or ValueError.

    NaN and infinite numbers are refused: JSON would have null in their place.
    """
    try:
        written = msgspec.json.encode(value, order="deterministic")
        if b"null" in written and _has_no_number(
            msgspec.to_builtins(value, str_keys=True, enc_hook=_of_raw)
        ):
            raise ValueError("has NaN or an infinite number, which JSON cannot carry")
        text = written.decode()
    except UnicodeError:
        raise ValueError("has half a surrogate pair, which is not a character") from None
    except RecursionError:
        raise ValueError("is nested too deeply, or contains itself") from None
    except TypeError as error:
        raise TypeError(f"has no form in JSON: {error}") from None
    # only within strings, where JSON can escape what XML cannot carry
    return ILLEGAL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _of_raw(value: object) -> None:
    assert isinstance(value, msgspec.Raw), "all else is encoded already"


def _has_no_number(value: object) -> bool:
    if isinstance(value, float):
        return not isfinite(value)
    if isinstance(value, dict):
        return any(map(_has_no_number, value.values()))
    return isinstance(value, (list, tuple)) and any(map(_has_no_number, value))


def _is_element(payload: object) -> bool:
    # lxml's are none of the standard library's, and many things have a tag
    return isinstance(payload, Element) or (iselement(payload) and hasattr(payload, "makeelement"))


def _xml(payload: object) -> str:
    assert isinstance(payload, Element) or iselement(payload), "an element"
    try:
        return kept_element(xml_text(payload, PUBSUB), "the payload")
    except (TypeError, AttributeError):  # a number, for example, in place of an element's text
        raise TypeError("has a name, text or attribute that is not a str") from None


# The publish of one item; values that XML cannot carry are refused before it is sent.


def publication(
    name: str, node: str, payload: object, beside: str, answer: str = publishing.SHORT
) -> IqRequest:
    """Return the request to publish one item; raise ValueError for a value that XML cannot carry.

    Raises TypeError for a payload that has no form in JSON, or an element that contains something other than text.
    """
    checked(name, "The item id")
    checked(node, "The node's name")
    what = f"payload of {name!r}"
    item = publishing.item(name, payload_text(payload, what).encode())
    words = f"the publish of {name!r}"
    return IqRequest("set", words, publishing.publish(node, [item], beside, answer).decode())


def payload_text(payload: object, what: str) -> str:
    """Return a payload as the XML of an item; raise ValueError or TypeError with what it is, if it has no such form."""
    try:
        return legal(written(payload), f"The {what}")
    except BadCharacterError as error:
        raise BadCharacterError(f"The {what}", error.character, error.position, error.why) from None
    except (TypeError, ValueError) as error:
        raise type(error)(f"The {what} {error}.") from None
