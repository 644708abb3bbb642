"""What has come for an item that waited, as one text for protocols whose messages have headers.

XMPP has an element for it (`faces/xmpp/render/notices.py`). The others have two headers: what woke the item, as one word, and an object of JSON with all that
came. The object is in ASCII and has no line ends, so it is carried exactly where a header has no escapes, as in STOMP 1.0, or only ASCII, as in HTTP.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import msgspec

from pubqueue.model.waits import AtDeadline

if TYPE_CHECKING:
    from pubqueue.model.waits import Wait

THENS: Final = ", ".join(one.value for one in AtDeadline)
"""The words for what the end of its time does with a held item."""

_ESCAPED: Final = (("%", "\\u0025"), ("\x7f", "\\u007f"))
"""Characters that JSON need not escape, and headers of HTTP do: with these the text is the same, decoded or not."""

_NAMES: Final = msgspec.json.Decoder(tuple[str, ...])


def came_for(wait: Wait) -> str:
    """Return what an item carries, and the signals that have come for it, in their order, as an object of JSON in ASCII.

    `carry` is missing if it carries nothing; `carry` and `data` are the texts that were sent. `at` is in milliseconds since 1970.
    """
    found: dict[str, object] = {} if not wait.carry else {"carry": wait.carry}
    found["signals"] = [
        {"name": one.name, "id": one.id, "data": one.data, "by": one.by, "at": one.at}
        for one in wait.came
    ]
    text = json.dumps(found, separators=(",", ":"))
    for one, escape in _ESCAPED:
        text = text.replace(one, escape)
    return text


def names_in(text: str) -> tuple[str, ...] | None:
    """Return the names of signals that a text of JSON lists, or None if it is not a list of texts."""
    try:
        return _NAMES.decode(text)
    except msgspec.DecodeError:
        return None


def then_of(text: str) -> AtDeadline | None:
    """Return what the end of its time does with a held item, None if there is no such word."""
    return next((one for one in AtDeadline if one.value == text), None)
