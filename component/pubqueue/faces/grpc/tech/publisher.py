"""`tech.pubsub.PublisherService`: a row for each rpc."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.faces.grpc.pubsub import listings, topics
from pubqueue.faces.grpc.tech import queries
from pubqueue.faces.grpc.tech.messages import read
from pubqueue.faces.grpc.wire.messages import tech
from pubqueue.faces.grpc.wire.names import ResourceKind, name_of, of_tech, to_tech

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pubqueue.faces.grpc.calls import Call
    from pubqueue.faces.grpc.services import Unary
    from pubqueue.model.entities import Node


def _name(text: str) -> str:
    return of_tech(text, ResourceKind.TOPIC)


def _shown(node: Node) -> tech.Topic:
    return tech.Topic(name=to_tech(name_of(node.name, ResourceKind.TOPIC), ResourceKind.TOPIC))


async def create_topic(call: Call, request: tech.Topic) -> tech.Topic:
    """Create the topic."""
    name = _name(request.name)
    await topics.create(call, name)
    return tech.Topic(name=to_tech(name, ResourceKind.TOPIC))


async def publish(call: Call, request: tech.PublishRequest) -> tech.Empty:
    """Publish one message."""
    size = call.size or request.ByteSize()
    publishing = topics.publish(call, _name(request.topic), [read(request.message)], size)
    del request  # it may be large, and is not needed while the message is published
    await publishing
    return tech.Empty()


async def publish_batch(call: Call, request: tech.PublishBatchRequest) -> tech.PublishBatchResponse:
    """Publish messages, all or none."""
    size = call.size or request.ByteSize()
    given = map(read, request.messages)
    publishing = topics.publish(call, _name(request.topic), [*given], size)
    del request, given
    return tech.PublishBatchResponse(message_ids=await publishing)


async def get_topic(call: Call, request: tech.GetTopicRequest) -> tech.Topic:
    """Return the topic."""
    return _shown(await topics.found(call, _name(request.topic)))


async def list_topics(call: Call, request: tech.ListTopicsRequest) -> tech.ListTopicsResponse:
    """Return a page of the topics of a project, or of all that the caller may know of."""
    wanted = queries.listed(request.query)
    if wanted.topic is not None:
        queries.refuse(request.query)
    page = await listings.page(
        call, ResourceKind.TOPIC, wanted.project, request.max_results, request.page_token
    )
    return tech.ListTopicsResponse(topic=map(_shown, page.nodes), next_page_token=page.token)


async def delete_topic(call: Call, request: tech.DeleteTopicRequest) -> tech.Empty:
    """Delete the topic with all its subscriptions."""
    await topics.delete(call, _name(request.topic), with_subscriptions=True)
    return tech.Empty()


RPCS: Final[Mapping[str, Unary]] = {
    "CreateTopic": create_topic,
    "Publish": publish,
    "PublishBatch": publish_batch,
    "GetTopic": get_topic,
    "ListTopics": list_topics,
    "DeleteTopic": delete_topic,
}
"""The rpcs of the service."""
