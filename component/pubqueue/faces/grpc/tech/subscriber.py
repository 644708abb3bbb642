"""`tech.pubsub.SubscriberService`: a row for each rpc."""

from __future__ import annotations

import secrets
import string
from typing import TYPE_CHECKING, Final

from grpc import StatusCode

from pubqueue.faces.grpc.pubsub import listings, settling, subscriptions
from pubqueue.faces.grpc.tech import fields, queries
from pubqueue.faces.grpc.tech.messages import pulled
from pubqueue.faces.grpc.wire.messages import tech
from pubqueue.faces.grpc.wire.names import ResourceKind, of_tech, project_of
from pubqueue.faces.grpc.wire.statuses import CallError, unfit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pubqueue.faces.grpc.calls import Call
    from pubqueue.faces.grpc.pubsub.settling import Change
    from pubqueue.faces.grpc.services import Unary
    from pubqueue.model.entities import Item

    Pulled = tuple[Item, bytes]

WAIT: Final = 60.0
"""Up to how many seconds a pull waits."""

USUAL_BATCH: Final = 100
"""Messages of a PullBatch without a number."""

_LETTERS: Final = string.ascii_letters + string.digits
_NAME_LENGTH: Final = 26


def name_of(text: str) -> str:
    """Return the name of a subscription in the form of v1."""
    return of_tech(text, ResourceKind.SUBSCRIPTION)


async def create_subscription(call: Call, request: tech.Subscription) -> tech.Subscription:
    """Create the subscription; without a name it gets a random one in the project of its topic."""
    topic = of_tech(request.topic, ResourceKind.TOPIC)
    call.node(topic, ResourceKind.TOPIC, "topic")
    name = name_of(request.name) or _random(project_of(topic))
    await subscriptions.create(
        call, name, topic, fields.settings(request, call.backend.terms.push_to)
    )
    return fields.shown(await subscriptions.found(call, name))


def _random(project: str) -> str:
    rest = "".join(secrets.choice(_LETTERS) for _ in range(_NAME_LENGTH))
    return f"projects/{project}/{ResourceKind.SUBSCRIPTION.value}/s-{rest}"


async def get_subscription(call: Call, request: tech.GetSubscriptionRequest) -> tech.Subscription:
    """Return the subscription."""
    return fields.shown(await subscriptions.found(call, name_of(request.subscription)))


async def list_subscriptions(
    call: Call, request: tech.ListSubscriptionsRequest
) -> tech.ListSubscriptionsResponse:
    """Return a page of the subscriptions of a project, of a topic, or of all that the caller may know of."""
    wanted = queries.listed(request.query)
    page = await listings.page(
        *(call, ResourceKind.SUBSCRIPTION, wanted.project, request.max_results, request.page_token),
        topic=wanted.topic,
    )
    shown = map(fields.shown, page.nodes)
    return tech.ListSubscriptionsResponse(subscription=shown, next_page_token=page.token)


async def delete_subscription(call: Call, request: tech.DeleteSubscriptionRequest) -> tech.Empty:
    """Delete the subscription with everything in it."""
    await subscriptions.delete(call, name_of(request.subscription))
    return tech.Empty()


async def truncate_subscription(
    call: Call, request: tech.TruncateSubscriptionRequest
) -> tech.Empty:
    """Remove all messages; the subscriber gets an event that reports it."""
    await subscriptions.truncate(call, name_of(request.subscription), notify=True)
    return tech.Empty()


async def modify_push_config(call: Call, request: tech.ModifyPushConfigRequest) -> tech.Empty:
    """Set or clear the push endpoint."""
    name = name_of(request.subscription)
    before = (await subscriptions.found(call, name)).config
    endpoint, push_to = request.push_config.push_endpoint, call.backend.terms.push_to
    await subscriptions.configure(call, name, fields.push(endpoint, push_to, before))
    return tech.Empty()


async def pull(call: Call, request: tech.PullRequest) -> tech.PullResponse:
    """Return one message; wait for it, unless the answer is wanted at once."""
    item, payload = await take(call, request)
    return pulled(item, payload, name_of(request.subscription))


async def take(call: Call, request: tech.PullRequest) -> Pulled:
    """Return the item of a Pull.

    Raises:
        CallError: there is none.

    """
    wait = 0.0 if request.return_immediately else WAIT
    for one in await subscriptions.pull(call, name_of(request.subscription), 1, wait):
        return one
    if request.return_immediately:
        raise unfit("There are no messages in the subscription.")
    raise CallError(StatusCode.UNAVAILABLE, "No message has come; try again.")


async def pull_batch(call: Call, request: tech.PullBatchRequest) -> tech.PullBatchResponse:
    """Return up to the requested number of messages; wait for the first, unless the answer is wanted at once."""
    items, name = await take_batch(call, request), name_of(request.subscription)
    return tech.PullBatchResponse(pull_responses=[pulled(*item, name) for item in items])


async def take_batch(call: Call, request: tech.PullBatchRequest) -> list[Pulled]:
    """Return the items of a PullBatch."""
    wait = 0.0 if request.return_immediately else WAIT
    count = request.max_events if request.max_events > 0 else USUAL_BATCH
    return await subscriptions.pull(call, name_of(request.subscription), count, wait)


async def modify_ack_deadline(call: Call, request: tech.ModifyAckDeadlineRequest) -> tech.Empty:
    """Set the deadline of a message; 0 releases it."""
    change = settling.Change(request.ack_deadline_seconds)
    return await _settle(call, request.subscription, [request.ack_id], change)


async def acknowledge(call: Call, request: tech.AcknowledgeRequest) -> tech.Empty:
    """Acknowledge messages; repeated acknowledgements are not errors."""
    return await _settle(call, request.subscription, request.ack_id, settling.ACK)


async def nack(call: Call, request: tech.NackRequest) -> tech.Empty:
    """Refuse messages, so that they are delivered again."""
    return await _settle(call, request.subscription, request.ack_id, settling.NACK)


async def _settle(
    call: Call, subscription: str, ack_ids: Sequence[str], change: Change
) -> tech.Empty:
    await settling.settle(call, name_of(subscription), ack_ids, change)
    return tech.Empty()


RPCS: Final[Mapping[str, Unary]] = {
    "CreateSubscription": create_subscription,
    "GetSubscription": get_subscription,
    "ListSubscriptions": list_subscriptions,
    "DeleteSubscription": delete_subscription,
    "TruncateSubscription": truncate_subscription,
    "ModifyPushConfig": modify_push_config,
    "Pull": pull,
    "PullBatch": pull_batch,
    "ModifyAckDeadline": modify_ack_deadline,
    "Acknowledge": acknowledge,
    "Nack": nack,
}
"""The rpcs of the service."""

WAITS: Final = frozenset({"Pull", "PullBatch"})
"""The rpcs that may wait for a message."""
