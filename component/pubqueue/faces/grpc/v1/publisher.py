"""`google.pubsub.v1.Publisher`: a row for each rpc."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from google.protobuf.empty_pb2 import Empty

from pubqueue.faces.grpc.pubsub import listings, subscriptions, topics
from pubqueue.faces.grpc.v1 import fields
from pubqueue.faces.grpc.v1.messages import read
from pubqueue.faces.grpc.wire.messages import v1
from pubqueue.faces.grpc.wire.names import ResourceKind, is_project, name_of
from pubqueue.faces.grpc.wire.statuses import invalid

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pubqueue.faces.grpc.calls import Call
    from pubqueue.faces.grpc.services import Unary
    from pubqueue.faces.grpc.wire.payloads import Message


async def create_topic(call: Call, request: v1.Topic) -> v1.Topic:
    """Create the topic."""
    await topics.create(call, request.name, fields.topic_settings(request))
    return fields.topic_shown(await topics.found(call, request.name))


async def update_topic(call: Call, request: v1.UpdateTopicRequest) -> v1.Topic:
    """Change the fields in the mask."""
    name = request.topic.name
    node = await topics.found(call, name, "topic.name")
    wanted = fields.topic_updated(request.topic, request.update_mask.paths, node.config)
    await topics.configure(call, name, wanted)
    return fields.topic_shown(await topics.found(call, name))


async def publish(call: Call, request: v1.PublishRequest) -> v1.PublishResponse:
    """Publish messages, all or none, of up to one ordering key."""
    size = call.size or request.ByteSize()
    publishing = topics.publish(call, request.topic, _given(request), size)
    del request  # it may be large, and is not needed while the messages are published
    return v1.PublishResponse(message_ids=await publishing)


def _given(request: v1.PublishRequest) -> list[Message]:
    given = [read(message) for message in request.messages]
    if len({message.ordering_key for message in given}) > 1:
        raise invalid("In a single publish request, all messages must have the same ordering key.")
    return given


async def get_topic(call: Call, request: v1.GetTopicRequest) -> v1.Topic:
    """Return the topic."""
    return fields.topic_shown(await topics.found(call, request.topic))


async def list_topics(call: Call, request: v1.ListTopicsRequest) -> v1.ListTopicsResponse:
    """Return a page of the topics of a project."""
    page = await listings.page(
        *(
            call,
            ResourceKind.TOPIC,
            project_in(request.project),
            request.page_size,
            request.page_token,
        )
    )
    shown = map(fields.topic_shown, page.nodes)
    return v1.ListTopicsResponse(topics=shown, next_page_token=page.token)


def project_in(text: str) -> str:
    """Return the project of `projects/PROJECT`.

    Raises:
        CallError: the text is something else.

    """
    head, _, project = text.partition("/")
    if head != "projects" or not is_project(project):
        raise invalid(f"Invalid project name: (name={text[:255]!a}); expected projects/PROJECT")
    return project


async def list_topic_subscriptions(
    call: Call, request: v1.ListTopicSubscriptionsRequest
) -> v1.ListTopicSubscriptionsResponse:
    """Return a page of the names of a topic's subscriptions."""
    page = await listings.page(
        *(call, ResourceKind.SUBSCRIPTION, None, request.page_size, request.page_token),
        topic=request.topic,
    )
    names = [name_of(node.name, ResourceKind.SUBSCRIPTION) for node in page.nodes]
    return v1.ListTopicSubscriptionsResponse(subscriptions=names, next_page_token=page.token)


async def list_topic_snapshots(
    call: Call, request: v1.ListTopicSnapshotsRequest
) -> v1.ListTopicSnapshotsResponse:
    """Return no snapshots: there are none."""
    await topics.found(call, request.topic)
    return v1.ListTopicSnapshotsResponse()


async def delete_topic(call: Call, request: v1.DeleteTopicRequest) -> Empty:
    """Delete the topic; its subscriptions stay, with their messages."""
    await topics.delete(call, request.topic, with_subscriptions=False)
    return Empty()


async def detach_subscription(
    call: Call, request: v1.DetachSubscriptionRequest
) -> v1.DetachSubscriptionResponse:
    """End the feeding of the subscription, and remove its messages."""
    await subscriptions.detach(call, request.subscription)
    return v1.DetachSubscriptionResponse()


RPCS: Final[Mapping[str, Unary]] = {
    "CreateTopic": create_topic,
    "UpdateTopic": update_topic,
    "Publish": publish,
    "GetTopic": get_topic,
    "ListTopics": list_topics,
    "ListTopicSubscriptions": list_topic_subscriptions,
    "ListTopicSnapshots": list_topic_snapshots,
    "DeleteTopic": delete_topic,
    "DetachSubscription": detach_subscription,
}
"""The rpcs of the service."""
