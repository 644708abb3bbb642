"""The publish of one item; values that XML cannot carry are refused before it is sent."""

from __future__ import annotations

from pubqueue_xeps.wire.payloads.encoding import written
from pubqueue_xeps.wire.requests import publishing
from pubqueue_xeps.wire.requests.iq import IqRequest
from pubqueue_xeps.wire.xml_escape import legal


def publication(
    name: str, node: str, payload: object, beside: str, answer: str = publishing.SHORT
) -> IqRequest:
    """Return the request to publish one item; raise ValueError for a value that XML cannot carry.

    Raises TypeError for a payload that has no form in JSON, or an element that contains something other than text.
    """
    _legal(name, "item id")
    _legal(node, "node's name")
    what = f"payload of {name!r}"
    item = publishing.item(name, _legal(_written(payload, what), what).encode())
    words = f"the publish of {name!r}"
    return IqRequest("set", words, publishing.publish(node, [item], beside, answer).decode())


def _written(payload: object, what: str) -> str:
    try:
        return written(payload)
    except (TypeError, ValueError) as error:
        raise type(error)(f"The {what} {error}.") from None


def _legal(text: str, what: str) -> str:
    """Refuse a request that would make the server end the stream."""
    try:
        return legal(text)
    except ValueError as error:
        raise ValueError(f"The {what} {error}.") from None
