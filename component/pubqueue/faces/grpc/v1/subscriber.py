"""`google.pubsub.v1.Subscriber`: a row for each rpc."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from google.protobuf.empty_pb2 import Empty

from pubqueue.faces.grpc.pubsub import listings, settling, subscriptions
from pubqueue.faces.grpc.services import refused
from pubqueue.faces.grpc.v1 import fields, once
from pubqueue.faces.grpc.v1.messages import received
from pubqueue.faces.grpc.v1.publisher import project_in
from pubqueue.faces.grpc.v1.streaming import streaming_pull
from pubqueue.faces.grpc.wire.messages import v1
from pubqueue.faces.grpc.wire.names import ResourceKind
from pubqueue.faces.grpc.wire.statuses import invalid, unimplemented
from pubqueue.model.entities import Millis

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pubqueue.faces.grpc.calls import Call
    from pubqueue.faces.grpc.services import Streaming, Unary

SOON: Final = 1_000
"""Milliseconds before now that count as now where nothing is kept that could come back: the clocks of clients differ."""

WAIT: Final = 5.0
"""Up to how many seconds a pull waits."""


async def create_subscription(call: Call, request: v1.Subscription) -> v1.Subscription:
    """Create the subscription."""
    await subscriptions.create(
        call, request.name, request.topic, fields.settings(request, call.backend.terms.push_to)
    )
    return fields.shown(await subscriptions.found(call, request.name))


async def get_subscription(call: Call, request: v1.GetSubscriptionRequest) -> v1.Subscription:
    """Return the subscription."""
    return fields.shown(await subscriptions.found(call, request.subscription))


async def update_subscription(call: Call, request: v1.UpdateSubscriptionRequest) -> v1.Subscription:
    """Change the fields in the mask."""
    name = request.subscription.name
    node = await subscriptions.found(call, name, "subscription.name")
    wanted = fields.updated(
        *(request.subscription, request.update_mask.paths, node.config, call.backend.terms.push_to)
    )
    await subscriptions.configure(call, name, wanted)
    return fields.shown(await subscriptions.found(call, name))


async def list_subscriptions(
    call: Call, request: v1.ListSubscriptionsRequest
) -> v1.ListSubscriptionsResponse:
    """Return a page of the subscriptions of a project."""
    page = await listings.page(
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
    node = await subscriptions.found(call, request.subscription)
    items = await subscriptions.pull(call, request.subscription, request.max_messages, wait)
    return v1.PullResponse(received_messages=[received(*item, node) for item in items])


async def acknowledge(call: Call, request: v1.AcknowledgeRequest) -> Empty:
    """Acknowledge messages; repeated acknowledgements are not errors."""
    done = await settling.settle(call, request.subscription, request.ack_ids, settling.ACK)
    once.check(done)
    return Empty()


async def modify_ack_deadline(call: Call, request: v1.ModifyAckDeadlineRequest) -> Empty:
    """Set the deadline of messages; 0 releases them."""
    change = settling.Change(request.ack_deadline_seconds)
    done = await settling.settle(call, request.subscription, request.ack_ids, change)
    once.check(done)
    return Empty()


async def modify_push_config(call: Call, request: v1.ModifyPushConfigRequest) -> Empty:
    """Set or clear the push endpoint; without one, messages are kept until they are pulled."""
    node = await subscriptions.found(call, request.subscription)
    push_to = call.backend.terms.push_to
    wanted = fields.push_updated(request.push_config, push_to, node.config)
    await subscriptions.configure(call, request.subscription, wanted)
    return Empty()


async def seek(call: Call, request: v1.SeekRequest) -> v1.SeekResponse:
    """Mark what was published before a time as acknowledged, and what was published since then, and is kept, as not acknowledged."""
    if request.WhichOneof("target") != "time":
        raise unimplemented("Seek to a snapshot")
    node = await subscriptions.found(call, request.subscription)
    try:
        since = request.time.ToMilliseconds()
    except ValueError:
        raise invalid("time must be a timestamp of the years 1 to 9999") from None
    if not node.config.keep_done and since >= call.backend.now() - SOON:
        since += SOON
    await subscriptions.seek(call, request.subscription, Millis(since))
    return v1.SeekResponse()


async def list_snapshots(_call: Call, request: v1.ListSnapshotsRequest) -> v1.ListSnapshotsResponse:
    """Return no snapshots: there are none."""
    project_in(request.project)
    return v1.ListSnapshotsResponse()


RPCS: Final[Mapping[str, Unary]] = {
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
