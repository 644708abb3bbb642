"""The services of `google.pubsub.v1`: Publisher, Subscriber and SchemaService."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from google.protobuf.empty_pb2 import Empty

from pubqueue.faces.grpc import fields, iam, subscriptions, topics
from pubqueue.faces.grpc.calls import Service, refused
from pubqueue.faces.grpc.fields import add_received
from pubqueue.faces.grpc.statuses import invalid
from pubqueue.faces.grpc.streaming import streaming_pull
from pubqueue.faces.grpc.wire import (
    ResourceKind,
    StoredMessage,
    is_project,
    name_of,
    service,
    v1,
)
from pubqueue.model.entities import Millis, NodeName

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pubqueue.faces.grpc.calls import Call, Streaming, Unary


# `google.pubsub.v1.Subscriber`: a row for each rpc.

SOON: Final = 1_000
"""Milliseconds before now that count as now where nothing is kept that could come back: the clocks of clients differ."""

WAIT: Final = 5.0
"""Up to how many seconds a pull waits."""


async def create_subscription(call: Call, request: v1.Subscription) -> v1.Subscription:
    """Create the subscription."""
    wanted = fields.settings(request, call.backend.grpc.push_to)
    await _check_dead_letters(call, wanted)
    await subscriptions.create(call, request.name, request.topic, wanted)
    return fields.shown(await subscriptions.found(call, request.name))


async def _check_dead_letters(call: Call, wanted: topics.Fields) -> None:
    """Check that the topic for dead messages exists: without it, the operation fails (`DeadLetterPolicy`)."""
    if name := wanted.get("dead_letter_node"):
        place = name_of(NodeName(str(name)), ResourceKind.TOPIC)
        await topics.found_topic(call, place, "dead_letter_policy.dead_letter_topic")


async def get_subscription(call: Call, request: v1.GetSubscriptionRequest) -> v1.Subscription:
    """Return the subscription."""
    return fields.shown(await subscriptions.found(call, request.subscription))


async def update_subscription(call: Call, request: v1.UpdateSubscriptionRequest) -> v1.Subscription:
    """Change the fields in the mask."""
    name = request.subscription.name
    now = fields.shown(await subscriptions.found(call, name, "subscription.name"))
    push_to = call.backend.grpc.push_to
    wanted = fields.updated(request.subscription, request.update_mask.paths, push_to, now)
    await _check_dead_letters(call, wanted)
    await subscriptions.configure(call, name, wanted)
    return fields.shown(await subscriptions.found(call, name))


async def list_subscriptions(
    call: Call, request: v1.ListSubscriptionsRequest
) -> v1.ListSubscriptionsResponse:
    """Return a page of the subscriptions of a project."""
    page = await topics.page(
        call,
        ResourceKind.SUBSCRIPTION,
        project_in(request.project),
        request.page_size,
        request.page_token,
    )
    shown = map(fields.shown, page.nodes)
    return v1.ListSubscriptionsResponse(subscriptions=shown, next_page_token=page.token)


async def delete_subscription(call: Call, request: v1.DeleteSubscriptionRequest) -> Empty:
    """Delete the subscription with everything in it."""
    await subscriptions.delete(call, request.subscription)
    return Empty()


async def pull(call: Call, request: v1.PullRequest) -> v1.PullResponse:
    """Return up to the requested number of messages; wait a little for the first, unless the answer is wanted at once."""
    if request.max_messages <= 0:
        raise invalid("max_messages must be above 0")
    wait = 0.0 if request.return_immediately else WAIT
    node = await subscriptions.known(call, request.subscription)
    items = await subscriptions.pull(call, request.subscription, request.max_messages, wait)
    answer = v1.PullResponse()
    await subscriptions.converted(items, partial(add_received, answer, node))
    return answer


async def acknowledge(call: Call, request: v1.AcknowledgeRequest) -> Empty:
    """Acknowledge messages; repeated acknowledgements are not errors."""
    done = await subscriptions.settle(
        call, request.subscription, request.ack_ids, subscriptions.ACK
    )
    subscriptions.check(done)
    return Empty()


async def modify_ack_deadline(call: Call, request: v1.ModifyAckDeadlineRequest) -> Empty:
    """Set the deadline of messages; 0 releases them."""
    change = subscriptions.Change(request.ack_deadline_seconds)
    done = await subscriptions.settle(call, request.subscription, request.ack_ids, change)
    subscriptions.check(done)
    return Empty()


async def modify_push_config(call: Call, request: v1.ModifyPushConfigRequest) -> Empty:
    """Set or clear the push endpoint; without one, messages are kept until they are pulled."""
    wanted = fields.push_updated(request.push_config, call.backend.grpc.push_to)
    await subscriptions.configure(call, request.subscription, wanted)
    return Empty()


async def seek(call: Call, request: v1.SeekRequest) -> v1.SeekResponse:
    """Mark what was published before a time as acknowledged, and what was published since then, and is kept, as not acknowledged."""
    if request.WhichOneof("target") != "time":
        raise invalid("target is required: a time")
    node = await subscriptions.found(call, request.subscription)
    try:
        since = request.time.ToMilliseconds()
    except ValueError:
        raise invalid("time must be a timestamp of the years 1 to 9999") from None
    if not node.config.keep_done and since >= call.backend.broker.now() - SOON:
        since += SOON
    await subscriptions.seek(call, request.subscription, Millis(since))
    return v1.SeekResponse()


async def list_snapshots(_call: Call, request: v1.ListSnapshotsRequest) -> v1.ListSnapshotsResponse:
    """Return no snapshots: there are none."""
    project_in(request.project)
    _first_page(request.page_token)
    return v1.ListSnapshotsResponse()


def _first_page(token: str) -> None:
    if token:
        raise invalid("page_token is not one of this service: the list is empty")


SUBSCRIBER: Final[Mapping[str, Unary]] = {
    "CreateSubscription": create_subscription,
    "GetSubscription": get_subscription,
    "UpdateSubscription": update_subscription,
    "ListSubscriptions": list_subscriptions,
    "DeleteSubscription": delete_subscription,
    "ModifyAckDeadline": modify_ack_deadline,
    "Acknowledge": acknowledge,
    "Pull": pull,
    "ModifyPushConfig": modify_push_config,
    "GetSnapshot": refused("GetSnapshot"),
    "ListSnapshots": list_snapshots,
    "CreateSnapshot": refused("CreateSnapshot"),
    "UpdateSnapshot": refused("UpdateSnapshot"),
    "DeleteSnapshot": refused("DeleteSnapshot"),
    "Seek": seek,
}
"""The rpcs of the service that are one request and one answer."""

STREAMS: Final[Mapping[str, Streaming]] = {"StreamingPull": streaming_pull}
"""The rpcs of the service that are streams."""

WAITS: Final = frozenset({"Pull"})
"""The rpcs that may wait for a message."""


# `google.pubsub.v1.Publisher`: a row for each rpc.


async def create_topic(call: Call, request: v1.Topic) -> v1.Topic:
    """Create the topic."""
    await topics.create(call, request.name, fields.topic_settings(request))
    return fields.topic_shown(await topics.found_topic(call, request.name))


async def update_topic(call: Call, request: v1.UpdateTopicRequest) -> v1.Topic:
    """Change the fields in the mask."""
    name = request.topic.name
    await topics.found_topic(call, name, "topic.name")
    wanted = fields.topic_updated(request.topic, request.update_mask.paths)
    await topics.configure(call, name, wanted)
    return fields.topic_shown(await topics.found_topic(call, name))


async def publish(call: Call, request: v1.PublishRequest) -> v1.PublishResponse:
    """Publish messages, all or none, of up to one ordering key."""
    size = call.size or request.ByteSize()
    publishing = topics.publish(call, request.topic, partial(_given, request), size)
    del request  # it may be large, and is not needed while the messages are published
    return v1.PublishResponse(message_ids=await publishing)


def read(given: v1.PubsubMessage) -> StoredMessage:
    """Return a message that is to be published. Its id and its time, which the service sets, are ignored.

    Raises:
        CallError: it has neither data nor attributes.

    """
    if not given.data and not given.attributes:
        raise invalid("Some messages in the batch are empty: each needs data or attributes")
    return StoredMessage(given.data, dict(given.attributes), given.ordering_key)


def _given(request: v1.PublishRequest) -> list[StoredMessage]:
    given = [read(message) for message in request.messages]
    if len({message.ordering_key for message in given}) > 1:
        raise invalid("In a single publish request, all messages must have the same ordering key.")
    return given


async def get_topic(call: Call, request: v1.GetTopicRequest) -> v1.Topic:
    """Return the topic."""
    return fields.topic_shown(await topics.found_topic(call, request.topic))


async def list_topics(call: Call, request: v1.ListTopicsRequest) -> v1.ListTopicsResponse:
    """Return a page of the topics of a project."""
    page = await topics.page(
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
    page = await topics.page(
        *(call, ResourceKind.SUBSCRIPTION, None, request.page_size, request.page_token),
        topic=request.topic,
    )
    names = [name_of(node.name, ResourceKind.SUBSCRIPTION) for node in page.nodes]
    return v1.ListTopicSubscriptionsResponse(subscriptions=names, next_page_token=page.token)


async def list_topic_snapshots(
    call: Call, request: v1.ListTopicSnapshotsRequest
) -> v1.ListTopicSnapshotsResponse:
    """Return no snapshots: there are none."""
    await topics.found_topic(call, request.topic)
    _first_page(request.page_token)
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


PUBLISHER: Final[Mapping[str, Unary]] = {
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


# `google.pubsub.v1.SchemaService`: payloads are opaque to the service, so it has no schemas.

SCHEMAS: Final[Mapping[str, Unary]] = {
    method.name: refused(f"SchemaService.{method.name}")
    for method in service("google.pubsub.v1.SchemaService").methods
}
"""The rpcs of the service."""


# The binding `google.pubsub.v1`: Publisher and Subscriber, and `google.iam.v1` for their rights.

SERVICES = (
    Service("google.pubsub.v1.Publisher", PUBLISHER, publishes=frozenset({"Publish"})),
    Service("google.pubsub.v1.Subscriber", SUBSCRIBER, STREAMS, waits=WAITS),
    Service("google.pubsub.v1.SchemaService", SCHEMAS),
    Service("google.iam.v1.IAMPolicy", iam.RPCS),
)
"""The services, each with a row for every rpc."""
