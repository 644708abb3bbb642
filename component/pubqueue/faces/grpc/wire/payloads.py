"""From the data and attributes of a message to an item, and back. Pure.

Attributes are the item's headers (XEP-0131). Headers that begin with `x-pubqueue-` are the service's own, and no message shows them.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pubqueue.faces.grpc.wire.statuses import invalid
from pubqueue.model.entities import Draft, ItemId
from pubqueue.rules.validity import MAX_GROUP_LENGTH, is_group
from pubqueue_xeps.wire.payloads.content_type import HEADER as CONTENT_TYPE
from pubqueue_xeps.wire.payloads.wrapper import unwrap, wrap
from pubqueue_xeps.wire.xml_escape import ILLEGAL

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pubqueue.model.entities import Headers

OWN: Final = "x-pubqueue-"
"""The prefix of the service's own headers."""

NUMBERS: Final = "x-pubqueue-numbers"
"""The header that names the labels whose values are numbers."""

ORDERING: Final = "x-pubqueue-key"
"""The header with the ordering key."""

MAX_KEY_LENGTH: Final = 256
MAX_VALUE_LENGTH: Final = 1_024
MAX_ATTRIBUTES: Final = 100
"""Bytes of a key and of a value, and attributes of one message."""

MAX_ORDERING_KEY_LENGTH: Final = 1_024
"""Bytes of an ordering key."""


class Message(Struct, frozen=True, gc=False):
    """A message of either binding. `numbers` are the labels whose values are numbers."""

    data: bytes
    attributes: dict[str, str]
    ordering_key: str = ""
    numbers: frozenset[str] = frozenset()


def draft_of(message: Message, name: ItemId) -> Draft:
    """Return the item that a message is published as.

    Raises:
        CallError: an attribute, or the ordering key, cannot be carried.

    """
    attributes, key = message.attributes, message.ordering_key
    _check_attributes(attributes)
    if key and ILLEGAL.search(key):
        raise invalid("ordering_key has a character that XML cannot carry")
    if len(key.encode()) > MAX_ORDERING_KEY_LENGTH:
        raise invalid(f"ordering_key has more than {MAX_ORDERING_KEY_LENGTH} bytes")
    type_ = attributes.get(CONTENT_TYPE)
    wrapped = wrap(message.data, type_ or None)
    headers = [(name, value) for name, value in attributes.items() if name != CONTENT_TYPE]
    if wrapped.header is not None or type_ == "":
        headers.append((CONTENT_TYPE, wrapped.header or ""))
    if message.numbers:
        headers.append((NUMBERS, " ".join(sorted(message.numbers))))
    if key:
        headers.append((ORDERING, key))
    group = group_of(key)
    return Draft(name, wrapped.xml, headers=tuple(headers), type=wrapped.space, group=group)


def group_of(key: str) -> str:
    """Return the group of the messages with this ordering key: the key itself, or its digest if it cannot be a group."""
    if not key or (is_group(key) and len(key.encode()) <= MAX_GROUP_LENGTH):
        return key
    return f"sha256:{sha256(key.encode()).hexdigest()}"


def message_of(payload: bytes, headers: Headers) -> Message:
    """Return the message of an item, whichever protocol it was published over."""
    attributes = _joined(headers)
    numbers = frozenset(attributes.pop(NUMBERS, "").split())
    key = attributes.pop(ORDERING, "")
    shown = {name: value for name, value in attributes.items() if not name.startswith(OWN)}
    if not payload:
        return Message(b"", shown, key, numbers)
    body = unwrap(payload, shown.get(CONTENT_TYPE) or None)
    if body.type is not None:
        shown[CONTENT_TYPE] = body.type
    return Message(body.data, shown, key, numbers)


def _check_attributes(attributes: dict[str, str]) -> None:
    if len(attributes) > MAX_ATTRIBUTES:
        raise invalid(f"a message has at most {MAX_ATTRIBUTES} attributes")
    for name, value in attributes.items():
        if not name or ILLEGAL.search(name) or ILLEGAL.search(value):
            raise invalid(f"attribute {name!a} is empty or has a character that XML cannot carry")
        if name.startswith(OWN):
            raise invalid(f"attribute {name!a}: names that begin with {OWN} are the service's own")
        if len(name.encode()) > MAX_KEY_LENGTH or len(value.encode()) > MAX_VALUE_LENGTH:
            raise invalid(
                f"attribute {name[:MAX_KEY_LENGTH]!a}: a key has at most {MAX_KEY_LENGTH} bytes, a value {MAX_VALUE_LENGTH}"
            )


def _joined(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the headers by their names; the values of a header that occurs twice are joined."""
    found: dict[str, str] = {}
    for name, value in headers:
        found[name] = f"{found[name]}, {value}" if name in found else value
    return found
