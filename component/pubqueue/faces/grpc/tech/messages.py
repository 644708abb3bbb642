"""From messages of `tech.pubsub` to those of the face, and back. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pubqueue.faces.grpc.wire.ack_ids import ack_id
from pubqueue.faces.grpc.wire.messages import tech
from pubqueue.faces.grpc.wire.names import ResourceKind, to_tech
from pubqueue.faces.grpc.wire.payloads import Message, message_of
from pubqueue.faces.grpc.wire.statuses import invalid
from pubqueue.rules.room import STATUS

if TYPE_CHECKING:
    from pubqueue.model.entities import Item


def read(given: tech.PubsubMessage) -> Message:
    """Return a message that is to be published.

    Raises:
        CallError: it has an id, or a label twice.

    """
    if given.HasField("message_id"):
        raise invalid("message.message_id is assigned by the service")
    attributes: dict[str, str] = {}
    numbers: set[str] = set()
    for label in given.label:
        if label.key in attributes:
            raise invalid(f"message.label: the key {label.key!a} occurs twice")
        if any(one.isspace() for one in label.key):
            raise invalid(f"message.label: the key {label.key!a} has white space")
        if label.WhichOneof("value") == "num_value":
            attributes[label.key] = str(label.num_value)
            numbers.add(label.key)
        else:
            attributes[label.key] = label.str_value
    return Message(given.data, attributes, numbers=frozenset(numbers))


def written(item: Item, payload: bytes) -> tech.PubsubMessage:
    """Return the message of an item."""
    found = message_of(payload, item.headers)
    labels = [_label(key, value, found.numbers) for key, value in found.attributes.items()]
    return tech.PubsubMessage(data=found.data, label=labels, message_id=item.id)


def event_of(item: Item, payload: bytes, subscription: str) -> tech.PubsubEvent:
    """Return an item as an event of the subscription of this name."""
    event = tech.PubsubEvent(subscription=to_tech(subscription, ResourceKind.SUBSCRIPTION))
    if payload == STATUS:
        event.truncated = True
    else:
        event.message.CopyFrom(written(item, payload))
    return event


def pulled(item: Item, payload: bytes, subscription: str) -> tech.PullResponse:
    """Return an item that is locked to the caller, as an event of the subscription of this name."""
    event = event_of(item, payload, subscription)
    return tech.PullResponse(ack_id=ack_id(item), pubsub_event=event)


def _label(key: str, value: str, numbers: frozenset[str]) -> tech.Label:
    if key in numbers:
        try:
            return tech.Label(key=key, num_value=int(value))
        except (
            ValueError
        ):  # another publisher's header of the same name, which is not a 64-bit number
            pass
    return tech.Label(key=key, str_value=value)
