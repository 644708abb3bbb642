"""From the messages of `tech.pubsub` to JSON, with the forms and fields that this binding has. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from google.protobuf import json_format

from pubqueue.faces.grpc.tech import messages

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from pubqueue.faces.grpc.json.requests import Fields
    from pubqueue.faces.grpc.wire.messages import tech
    from pubqueue.model.entities import Item


def plain(message: Message) -> Fields:
    """Return a message as it is."""
    return json_format.MessageToDict(message)


def subscription(message: tech.Subscription) -> Fields:
    """Return a subscription; its name begins with a slash here."""
    return _named(plain(message))


def page(message: Message) -> Fields:
    """Return a page of a list; the last one has no token."""
    found = plain(message)
    if not found.get("nextPageToken"):
        found.pop("nextPageToken", None)
    for one in found.get("subscription", ()):
        _named(one)
    return found


def pulled(item: Item, payload: bytes, name: str) -> Fields:
    """Return an item that is locked to the caller; its message has its time, in milliseconds."""
    found = plain(messages.pulled(item, payload, name))
    event = found["pubsubEvent"]
    event["subscription"] = _shown(event["subscription"])
    if "message" in event:
        event["message"]["publishTime"] = str(item.published)
    return found


def _named(found: Fields) -> Fields:
    found["name"] = _shown(found["name"])
    return found


def _shown(name: Any) -> str:  # noqa: ANN401  # of JSON
    return f"/subscriptions/{name}"
