"""From messages of `google.pubsub.v1` to those of the face, and back. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from google.protobuf.timestamp_pb2 import Timestamp

from pubqueue.faces.grpc.wire.ack_ids import ack_id
from pubqueue.faces.grpc.wire.messages import v1
from pubqueue.faces.grpc.wire.names import ResourceKind, name_of
from pubqueue.faces.grpc.wire.payloads import Message, message_of
from pubqueue.faces.grpc.wire.statuses import invalid
from pubqueue.model.entities import DELIVERIES, DIED_IN, NodeName
from pubqueue.rules.room import STATUS

if TYPE_CHECKING:
    from pubqueue.model.entities import Item, Node


DEAD: Final = "CloudPubSubDeadLetter"
"""The prefix of the attributes with the origin of a dead message."""

EVENT: Final = "x-pubqueue-event"
"""The attribute of an event of the subscription, which is not a message."""


def read(given: v1.PubsubMessage) -> Message:
    """Return a message that is to be published. Its id and its time, which the service sets, are ignored.

    Raises:
        CallError: it has neither data nor attributes.

    """
    if not given.data and not given.attributes:
        raise invalid("Some messages in the batch are empty: each needs data or attributes")
    return Message(given.data, dict(given.attributes), given.ordering_key)


def written(item: Item, payload: bytes) -> v1.PubsubMessage:
    """Return the message of an item."""
    found = message_of(payload, item.headers)
    if payload == STATUS:
        found = Message(b"", {EVENT: "truncated"})
    else:
        found.attributes.update(_of_death(item))
    message = v1.PubsubMessage(
        data=found.data,
        attributes=found.attributes,
        message_id=item.id,
        ordering_key=found.ordering_key,
    )
    message.publish_time.FromMilliseconds(item.published)
    return message


def _of_death(item: Item) -> dict[str, str]:
    """Return the attributes of a message that has come from another subscription, because it died there."""
    headers = dict(item.headers)
    origin = headers.get(DIED_IN) or (item.dead_letter and item.dead_letter.origin)
    if not origin:
        return {}
    _, project, _, name = name_of(NodeName(origin), ResourceKind.SUBSCRIPTION).split("/", 3)
    found = {f"{DEAD}SourceSubscription": name, f"{DEAD}SourceSubscriptionProject": project}
    if DELIVERIES in headers:
        found[f"{DEAD}SourceDeliveryCount"] = headers[DELIVERIES]
    published = Timestamp()
    published.FromMilliseconds(item.published)
    return {**found, f"{DEAD}SourceTopicPublishTime": published.ToJsonString()}


def received(item: Item, payload: bytes, node: Node) -> v1.ReceivedMessage:
    """Return an item of the node that is locked to the caller. Attempts are counted if messages can die."""
    attempt = item.failed + 1 if node.config.dead_letter_node else 0
    return v1.ReceivedMessage(
        ack_id=ack_id(item), message=written(item, payload), delivery_attempt=attempt
    )
