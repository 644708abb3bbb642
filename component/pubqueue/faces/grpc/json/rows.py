"""The methods of v1beta1a: one table of method and path, as Google's discovery document has them, over the rpcs of `tech.pubsub`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from msgspec import Struct

from pubqueue.faces.grpc.json import answers
from pubqueue.faces.grpc.json.requests import message_of
from pubqueue.faces.grpc.pubsub import settling
from pubqueue.faces.grpc.tech import publisher, subscriber
from pubqueue.faces.grpc.wire import names
from pubqueue.faces.grpc.wire.messages import tech
from pubqueue.faces.grpc.wire.statuses import invalid

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from google.protobuf.message import Message

    from pubqueue.faces.grpc.calls import Call
    from pubqueue.faces.grpc.json.requests import Fields
    from pubqueue.faces.grpc.services import Unary

    Handler = Callable[[Call, Any, Fields], Awaitable[Fields]]
    """Answers a request; the fields are those of the body that its kind does not have."""

MANY: Final = 100
"""Messages that are written on the loop; more are written beside it."""


class Row(Struct, frozen=True):
    """A method: its name in Google's client, the kind of its request, and the function that answers it.

    `field` is the field of the name in the path, if there is one; `waits`: it may wait for a message.
    """

    word: str
    kind: type[Message]
    handle: Handler
    field: str = ""
    waits: bool = False


def _rpc(handle: Unary, shown: Callable[..., Fields] = answers.plain) -> Handler:
    """Return the handler of an rpc as it is."""

    async def answer(call: Call, request: Any, _more: Fields) -> Fields:  # noqa: ANN401  # of any rpc
        return shown(await handle(call, request))

    return answer


async def _pull(call: Call, request: tech.PullRequest, _more: Fields) -> Fields:
    item, payload = await subscriber.take(call, request)
    return answers.pulled(item, payload, subscriber.name_of(request.subscription))


async def _pull_batch(call: Call, request: tech.PullBatchRequest, _more: Fields) -> Fields:
    items = await subscriber.take_batch(call, request)
    name = subscriber.name_of(request.subscription)

    def shown() -> Fields:
        return {"pullResponses": [answers.pulled(*item, name) for item in items]} if items else {}

    return shown() if len(items) <= MANY else await asyncio.to_thread(shown)


async def _modify_ack_deadline(
    call: Call, request: tech.ModifyAckDeadlineRequest, more: Fields
) -> Fields:
    """Set the deadlines of one message or of several; `ackIds` is not in the seed."""
    several = more.get("ackIds", more.get("ack_ids"))
    ids = list(message_of({"ackId": several}, tech.AcknowledgeRequest).ack_id)
    if ids and request.ack_id:
        raise invalid("ackId and ackIds: only one of them can be set.")
    change = settling.Change(request.ack_deadline_seconds)
    name = subscriber.name_of(request.subscription)
    await settling.settle(call, name, ids or [request.ack_id], change)
    return {}


_TOPIC: Final = "topic"
_QUEUE: Final = "subscription"

# fmt: off
ROWS: Final[Mapping[tuple[str, str], Row]] = {
    ("POST", "topics"):                              Row("topics.create", tech.Topic, _rpc(publisher.create_topic)),
    ("POST", "topics/publish"):                      Row("topics.publish", tech.PublishRequest, _rpc(publisher.publish)),
    ("POST", "topics/publishBatch"):                 Row("topics.publishBatch", tech.PublishBatchRequest, _rpc(publisher.publish_batch)),
    ("GET", "topics"):                               Row("topics.list", tech.ListTopicsRequest, _rpc(publisher.list_topics, answers.page)),
    ("GET", "topics/{name}"):                        Row("topics.get", tech.GetTopicRequest, _rpc(publisher.get_topic), _TOPIC),
    ("DELETE", "topics/{name}"):                     Row("topics.delete", tech.DeleteTopicRequest, _rpc(publisher.delete_topic), _TOPIC),
    ("POST", "subscriptions"):                       Row("subscriptions.create", tech.Subscription, _rpc(subscriber.create_subscription, answers.subscription)),
    ("POST", "subscriptions/pull"):                  Row("subscriptions.pull", tech.PullRequest, _pull, waits=True),
    ("POST", "subscriptions/pullBatch"):             Row("subscriptions.pullBatch", tech.PullBatchRequest, _pull_batch, waits=True),
    ("POST", "subscriptions/acknowledge"):           Row("subscriptions.acknowledge", tech.AcknowledgeRequest, _rpc(subscriber.acknowledge)),
    ("POST", "subscriptions/modifyAckDeadline"):     Row("subscriptions.modifyAckDeadline", tech.ModifyAckDeadlineRequest, _modify_ack_deadline),
    ("POST", "subscriptions/modifyPushConfig"):      Row("subscriptions.modifyPushConfig", tech.ModifyPushConfigRequest, _rpc(subscriber.modify_push_config)),
    ("GET", "subscriptions"):                        Row("subscriptions.list", tech.ListSubscriptionsRequest, _rpc(subscriber.list_subscriptions, answers.page)),
    ("GET", "subscriptions/{name}"):                 Row("subscriptions.get", tech.GetSubscriptionRequest, _rpc(subscriber.get_subscription, answers.subscription), _QUEUE),
    ("DELETE", "subscriptions/{name}"):              Row("subscriptions.delete", tech.DeleteSubscriptionRequest, _rpc(subscriber.delete_subscription), _QUEUE),
}
# fmt: on
"""The methods, by method of HTTP and path below the version."""


def find(method: str, raw_path: str) -> tuple[Row, Fields] | None:
    """Return the row of a request, and the field that its path has; `raw_path` is as it was sent, below the version."""
    path = raw_path.strip("/")
    if (row := ROWS.get((method, path))) is not None:
        return row, {}
    collection, _, rest = path.partition("/")
    row = ROWS.get((method, f"{collection}/{{name}}"))
    if row is None or not rest:
        return None
    return row, {row.field: _named(rest.lstrip("/"), names.ResourceKind(collection))}


def _named(written: str, kind: names.ResourceKind) -> str:
    """Return the name in a path: as it is written if that is a name, since names may have percent signs; else decoded.

    Google's client writes names as they are. One slash more or less is the same.
    """
    try:
        names.node_of(names.of_tech(written, kind), kind)
    except names.BadNameError:
        return unquote(written).lstrip("/")
    return written
