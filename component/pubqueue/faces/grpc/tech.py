"""The binding `tech.pubsub`: its two services, their messages, and its query language."""

from __future__ import annotations

import re
import secrets
import string
from functools import partial
from typing import TYPE_CHECKING, Final, NoReturn

from grpc import StatusCode
from msgspec import Struct

from pubqueue.faces.grpc import endpoints, subscriptions, topics, wire
from pubqueue.faces.grpc.calls import Service
from pubqueue.faces.grpc.statuses import CallError, invalid, unfit
from pubqueue.faces.grpc.subscriptions import MAX_DEADLINE
from pubqueue.model.entities import AtExpiry
from pubqueue.rules import filters
from pubqueue.rules.room import STATUS, truncates

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pubqueue.faces.grpc.calls import Call, Unary
    from pubqueue.faces.grpc.subscriptions import Change
    from pubqueue.model.entities import Item, Node
    from pubqueue.rules.nodeconfig import Value
    from pubqueue_xeps.wire.payloads.wrapper import Body

    Pulled = tuple[Item, bytes]


# `tech.pubsub.SubscriberService`: a row for each rpc.

WAIT: Final = 60.0
"""Up to how many seconds a pull waits."""

USUAL_BATCH: Final = 100
"""Messages of a PullBatch without a number."""

_LETTERS: Final = string.ascii_letters + string.digits
_NAME_LENGTH: Final = 26


def subscription_name(text: str) -> str:
    """Return the name of a subscription in the form of v1."""
    return wire.of_tech(text, wire.ResourceKind.SUBSCRIPTION)


async def create_subscription(
    call: Call, request: wire.tech.Subscription
) -> wire.tech.Subscription:
    """Create the subscription; without a name it gets a random one in the project of its topic."""
    topic = wire.of_tech(request.topic, wire.ResourceKind.TOPIC)
    call.node(topic, wire.ResourceKind.TOPIC, "topic")
    name = subscription_name(request.name) or _random(wire.project_of(topic))
    await subscriptions.create(call, name, topic, settings(request, call.backend.grpc.push_to))
    return shown_subscription(await subscriptions.found(call, name))


def _random(project: str) -> str:
    rest = "".join(secrets.choice(_LETTERS) for _ in range(_NAME_LENGTH))
    return f"projects/{project}/{wire.ResourceKind.SUBSCRIPTION.value}/s-{rest}"


async def get_subscription(
    call: Call, request: wire.tech.GetSubscriptionRequest
) -> wire.tech.Subscription:
    """Return the subscription."""
    return shown_subscription(
        await subscriptions.found(call, subscription_name(request.subscription))
    )


async def list_subscriptions(
    call: Call, request: wire.tech.ListSubscriptionsRequest
) -> wire.tech.ListSubscriptionsResponse:
    """Return a page of the subscriptions of a project, of a topic, or of all that the caller may know of."""
    wanted = listed(request.query)
    page = await topics.page(
        *(
            call,
            wire.ResourceKind.SUBSCRIPTION,
            wanted.project,
            request.max_results,
            request.page_token,
        ),
        topic=wanted.topic,
    )
    shown = map(shown_subscription, page.nodes)
    return wire.tech.ListSubscriptionsResponse(subscription=shown, next_page_token=page.token)


async def delete_subscription(
    call: Call, request: wire.tech.DeleteSubscriptionRequest
) -> wire.tech.Empty:
    """Delete the subscription with everything in it."""
    await subscriptions.delete(call, subscription_name(request.subscription))
    return wire.tech.Empty()


async def truncate_subscription(
    call: Call, request: wire.tech.TruncateSubscriptionRequest
) -> wire.tech.Empty:
    """Remove all messages; the subscriber gets an event that reports it."""
    await subscriptions.truncate(call, subscription_name(request.subscription), notify=True)
    return wire.tech.Empty()


async def modify_push_config(
    call: Call, request: wire.tech.ModifyPushConfigRequest
) -> wire.tech.Empty:
    """Set or clear the push endpoint."""
    name = subscription_name(request.subscription)
    endpoint, push_to = request.push_config.push_endpoint, call.backend.grpc.push_to
    await subscriptions.configure(call, name, push(endpoint, push_to))
    return wire.tech.Empty()


async def pull(call: Call, request: wire.tech.PullRequest) -> wire.tech.PullResponse:
    """Return one message; wait for it, unless the answer is wanted at once."""
    item, payload = await take(call, request)
    body = await subscriptions.body_of(item, payload)
    return pulled(subscription_name(request.subscription), item, payload, body)


async def take(call: Call, request: wire.tech.PullRequest) -> Pulled:
    """Return the item of a Pull.

    Raises:
        CallError: there is none.

    """
    wait = 0.0 if request.return_immediately else WAIT
    for one in await subscriptions.pull(call, subscription_name(request.subscription), 1, wait):
        return one
    if request.return_immediately:
        raise unfit("There are no messages in the subscription.")
    raise CallError(StatusCode.UNAVAILABLE, "No message has come; try again.")


async def pull_batch(
    call: Call, request: wire.tech.PullBatchRequest
) -> wire.tech.PullBatchResponse:
    """Return up to the requested number of messages; wait for the first, unless the answer is wanted at once."""
    items, name = await take_batch(call, request), subscription_name(request.subscription)
    found = await subscriptions.converted(items, partial(pulled, name))
    return wire.tech.PullBatchResponse(pull_responses=found)


async def take_batch(call: Call, request: wire.tech.PullBatchRequest) -> list[Pulled]:
    """Return the items of a PullBatch."""
    wait = 0.0 if request.return_immediately else WAIT
    count = request.max_events if request.max_events > 0 else USUAL_BATCH
    return await subscriptions.pull(call, subscription_name(request.subscription), count, wait)


async def modify_ack_deadline(
    call: Call, request: wire.tech.ModifyAckDeadlineRequest
) -> wire.tech.Empty:
    """Set the deadline of a message; 0 releases it."""
    change = subscriptions.Change(request.ack_deadline_seconds)
    return await _settle(call, request.subscription, [request.ack_id], change)


async def acknowledge(call: Call, request: wire.tech.AcknowledgeRequest) -> wire.tech.Empty:
    """Acknowledge messages; repeated acknowledgements are not errors."""
    return await _settle(call, request.subscription, request.ack_id, subscriptions.ACK)


async def nack(call: Call, request: wire.tech.NackRequest) -> wire.tech.Empty:
    """Refuse messages, so that they are delivered again."""
    return await _settle(call, request.subscription, request.ack_id, subscriptions.NACK)


async def _settle(
    call: Call, subscription: str, ack_ids: Sequence[str], change: Change
) -> wire.tech.Empty:
    subscriptions.check(
        await subscriptions.settle(call, subscription_name(subscription), ack_ids, change)
    )
    return wire.tech.Empty()


SUBSCRIBER: Final[Mapping[str, Unary]] = {
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

PUBLISHES: Final = frozenset({"Publish", "PublishBatch"})
"""The rpcs whose requests may be large."""


# `tech.pubsub.PublisherService`: a row for each rpc.


def _name(text: str) -> str:
    return wire.of_tech(text, wire.ResourceKind.TOPIC)


def _topic(node: Node) -> wire.tech.Topic:
    return wire.tech.Topic(
        name=wire.to_tech(wire.name_of(node.name, wire.ResourceKind.TOPIC), wire.ResourceKind.TOPIC)
    )


async def create_topic(call: Call, request: wire.tech.Topic) -> wire.tech.Topic:
    """Create the topic."""
    name = _name(request.name)
    await topics.create(call, name)
    return wire.tech.Topic(name=wire.to_tech(name, wire.ResourceKind.TOPIC))


async def publish(call: Call, request: wire.tech.PublishRequest) -> wire.tech.Empty:
    """Publish one message."""
    size = call.size or request.ByteSize()
    publishing = topics.publish(
        call, _name(request.topic), partial(_read_all, [request.message]), size
    )
    del request  # it may be large, and is not needed while the message is published
    await publishing
    return wire.tech.Empty()


async def publish_batch(
    call: Call, request: wire.tech.PublishBatchRequest
) -> wire.tech.PublishBatchResponse:
    """Publish messages, all or none."""
    size = call.size or request.ByteSize()
    publishing = topics.publish(
        call, _name(request.topic), partial(_read_all, request.messages), size
    )
    del request
    return wire.tech.PublishBatchResponse(message_ids=await publishing)


async def get_topic(call: Call, request: wire.tech.GetTopicRequest) -> wire.tech.Topic:
    """Return the topic."""
    return _topic(await topics.found_topic(call, _name(request.topic)))


async def list_topics(
    call: Call, request: wire.tech.ListTopicsRequest
) -> wire.tech.ListTopicsResponse:
    """Return a page of the topics of a project, or of all that the caller may know of."""
    wanted = listed(request.query)
    if wanted.topic is not None:
        refuse(request.query)
    page = await topics.page(
        call, wire.ResourceKind.TOPIC, wanted.project, request.max_results, request.page_token
    )
    return wire.tech.ListTopicsResponse(topic=map(_topic, page.nodes), next_page_token=page.token)


async def delete_topic(call: Call, request: wire.tech.DeleteTopicRequest) -> wire.tech.Empty:
    """Delete the topic with all its subscriptions."""
    await topics.delete(call, _name(request.topic), with_subscriptions=True)
    return wire.tech.Empty()


PUBLISHER: Final[Mapping[str, Unary]] = {
    "CreateTopic": create_topic,
    "Publish": publish,
    "PublishBatch": publish_batch,
    "GetTopic": get_topic,
    "ListTopics": list_topics,
    "DeleteTopic": delete_topic,
}
"""The rpcs of the service."""


# The binding `tech.pubsub`: PublisherService and SubscriberService, and the push service that is called.

SERVICES = (
    Service("tech.pubsub.PublisherService", PUBLISHER, publishes=PUBLISHES),
    Service("tech.pubsub.SubscriberService", SUBSCRIBER, waits=WAITS),
)
"""The services, each with a row for every rpc."""


# The fields of a subscription of `tech.pubsub`, and the settings of its queue: one mapping in both directions. Pure.

MAX_AGE: Final = 366 * 86_400
"""Seconds of the longest age of messages."""

MAX_UNUSED: Final = 100 * 365 * 86_400
"""The maximum seconds after which an unused subscription is deleted."""

USUAL_DEADLINE: Final = 10
"""Seconds of the ack deadline of a subscription that names none."""


def settings(given: wire.tech.Subscription, push_to: Iterable[str]) -> topics.Fields:
    """Return the settings of a new subscription.

    Raises:
        CallError: a field is invalid, or is not supported.

    """
    deadline = given.ack_deadline_seconds or USUAL_DEADLINE
    if not 0 < deadline <= MAX_DEADLINE:
        raise invalid(f"ack_deadline_seconds must be from 1 to {MAX_DEADLINE}")
    if given.garbage_collect_seconds < 0 or given.garbage_collect_seconds > MAX_UNUSED:
        raise invalid(f"garbage_collect_seconds must be from 0 to {MAX_UNUSED}")
    return {
        "unused_expire": given.garbage_collect_seconds or "",
        **_truncation(given.truncation_policy),
        **push(given.push_config.push_endpoint, push_to),
        "lock_timeout": deadline,
        "lock_longest": MAX_DEADLINE,
        "filter": filter_of(given.query),
    }


def _truncation(policy: wire.tech.Subscription.TruncationPolicy) -> dict[str, Value]:
    """Return the settings of a truncation policy: the age at which messages are deleted."""
    match policy.WhichOneof("policy"):
        case "max_age_seconds":
            age = policy.max_age_seconds
            if not 0 < age <= MAX_AGE:
                raise invalid(f"truncation_policy.max_age_seconds must be from 1 to {MAX_AGE}")
            return {"item_expire": age, "expired": "truncate"}
        case "max_bytes":
            if policy.max_bytes <= 0:
                raise invalid("truncation_policy.max_bytes must be above 0")
            return {"max_bytes": policy.max_bytes, "expired": "truncate"}
        case _:
            return {}


def push(endpoint: str, push_to: Iterable[str]) -> topics.Fields:
    """Return the mark with a push endpoint, or without one.

    Raises:
        CallError: the endpoint is invalid, or may not be called.

    """
    return {endpoints.PUSH: endpoints.checked(endpoint, {}, push_to)}


def shown_subscription(node: Node) -> wire.tech.Subscription:
    """Return a subscription with the settings of its queue."""
    config = node.config
    found = wire.tech.Subscription(
        name=wire.to_tech(
            wire.name_of(node.name, wire.ResourceKind.SUBSCRIPTION), wire.ResourceKind.SUBSCRIPTION
        ),
        topic=wire.to_tech(wire.topic_of(node), wire.ResourceKind.TOPIC),
        query=query_of(config.filter) or None,
        ack_deadline_seconds=min(config.lock_timeout, MAX_DEADLINE),
        garbage_collect_seconds=config.unused_expire or None,
    )
    if truncates(config) and config.max_bytes is not None:
        found.truncation_policy.max_bytes = config.max_bytes
    elif config.item_expire is not None and config.expired is not AtExpiry.DEAD:
        found.truncation_policy.max_age_seconds = config.item_expire
    if (kept := endpoints.kept(config)) is not None:
        found.push_config.push_endpoint = kept.endpoint
    return found


# From messages of `tech.pubsub` to those of the face, and back. Pure.


def _read_all(given: Iterable[wire.tech.PubsubMessage]) -> list[wire.StoredMessage]:
    return [read(one) for one in given]


def read(given: wire.tech.PubsubMessage) -> wire.StoredMessage:
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
    return wire.StoredMessage(given.data, attributes, numbers=frozenset(numbers))


def written(item: Item, payload: bytes, body: Body | None = None) -> wire.tech.PubsubMessage:
    """Return the message of an item; `body`, if its payload was unwrapped already."""
    found = wire.message_of(payload, item.headers, body)
    shown = found.attributes | wire.waited(item)
    labels = [_label(key, value, found.numbers) for key, value in shown.items()]
    return wire.tech.PubsubMessage(data=found.data, label=labels, message_id=item.id)


def event_of(
    item: Item, payload: bytes, subscription: str, body: Body | None = None
) -> wire.tech.PubsubEvent:
    """Return an item as an event of the subscription of this name; `body`, if its payload was unwrapped already."""
    event = wire.tech.PubsubEvent(
        subscription=wire.to_tech(subscription, wire.ResourceKind.SUBSCRIPTION)
    )
    if payload == STATUS:
        event.truncated = True
    else:
        event.message.CopyFrom(written(item, payload, body))
    return event


def pulled(
    subscription: str, item: Item, payload: bytes, body: Body | None = None
) -> wire.tech.PullResponse:
    """Return an item that is locked to the caller, as an event of the subscription of this name; `body`, if its payload was unwrapped already."""
    event = event_of(item, payload, subscription, body)
    return wire.tech.PullResponse(ack_id=wire.ack_id(item), pubsub_event=event)


def _label(key: str, value: str, numbers: frozenset[str]) -> wire.tech.Label:
    if key in numbers:
        try:
            return wire.tech.Label(key=key, num_value=int(value))
        except (
            ValueError
        ):  # another publisher's header of the same name, which is not a 64-bit number
            pass
    return wire.tech.Label(key=key, str_value=value)


# The query language of `tech.pubsub`. Pure.
#
# Its definition was never published; the form `KEY in (A, B)` is all that is known of it. Here a query is
#
#     KEY = "v"    KEY != "v"    KEY in (a, "b")    NOT ...    ... AND ...    ... OR ...    and brackets
#
# over the labels of a message. A value needs quotes only if it has white space, quotes, commas, brackets or signs. It is stored as a filter of
# the queue (`rules.filters`), in whose words it means the same.

_TOKEN: Final = re.compile(r'\s*("(?:[^"\\]|\\["\\])*"|!=|[=(),]|[^\s"=!(),]+)')
_WORDS: Final = frozenset({"AND", "OR", "NOT"})
_PLAIN: Final = re.compile(r'[^\s"=!(),]+')

PROJECT: Final = "cloud.googleapis.com/project"
TOPIC: Final = "pubsub.googleapis.com/topic"
_LISTED: Final = re.compile(
    rf"\s*(?P<key>{re.escape(PROJECT)}|{re.escape(TOPIC)})\s+in\s+\(\s*(?P<value>[^\s(),]+)\s*\)\s*"
)


class Listed(Struct, frozen=True):
    """The request of a list; None: all."""

    project: str | None = None
    topic: str | None = None


def listed(query: str) -> Listed:
    """Return the request in the query of a list.

    Raises:
        CallError: it asks for anything but a project and a topic.

    """
    found: dict[str, str] = {}
    for part in filter(None, re.split(r"\sAND\s", query)) if query.strip() else ():
        match = _LISTED.fullmatch(part)
        if match is None or match["key"] in found:
            refuse(query)
        found[match["key"]] = match["value"]
    project = found.get(PROJECT)
    if project is not None:
        project = project.removeprefix("/projects/").removeprefix("projects/")
        if not wire.is_project(project):
            refuse(query)
    topic = found.get(TOPIC)
    return Listed(project, None if topic is None else wire.of_tech(topic, wire.ResourceKind.TOPIC))


def refuse(query: str) -> NoReturn:
    """Refuse the query of a list."""
    raise invalid(
        f"query: {query[:200]!a} is not supported; a list is of {PROJECT} in (/projects/PROJECT), and one of subscriptions of"
        f" {TOPIC} in (/topics/PROJECT/TOPIC)"
    )


def filter_of(query: str) -> str:
    """Return the filter that means the same as a query over labels.

    Raises:
        CallError: the query cannot be read.

    """
    if not query.strip():
        return ""
    if len(query) > filters.MAX_LENGTH:
        raise invalid(f"query has more than {filters.MAX_LENGTH} characters")
    text = " ".join(_translated(list(_tokens(query))))
    try:
        filters.parsed(text)
    except filters.FilterError:
        raise invalid(
            f'query: {query[:200]!a} cannot be read; the form is KEY in (A, "B"), KEY = A and KEY != A, with AND, OR, NOT and brackets'
        ) from None
    return text


def query_of(text: str) -> str:
    """Return the query that means the same as a filter; a filter that no query can express is returned unchanged."""
    try:
        return _query(filters.parsed(text), outer=True) if text else ""
    except (filters.FilterError, KeyError):
        return text


def _tokens(query: str) -> Iterator[str]:
    at, end = 0, len(query.rstrip())
    while at < end:
        found = _TOKEN.match(query, at)
        if found is None:
            raise invalid(f"query: character {at + 1} does not belong into a query")
        yield found[1]
        at = found.end()


def _translated(tokens: list[str]) -> Iterator[str]:
    """Yield the words of the filter: a key precedes a sign or `in`, and all other words are values."""
    for at, token in enumerate(tokens):
        following = tokens[at + 1] if at + 1 < len(tokens) else ""
        if token in {"(", ")", ",", "=", "!="} or token in _WORDS:
            yield token
        elif following in {"=", "!="} or following.lower() == "in":
            yield f"attributes.{_quoted(token)}"
        elif token.lower() == "in" and following == "(":
            yield "IN"
        else:
            yield _quoted(token)


def _quoted(token: str) -> str:
    if token.startswith('"'):
        return token
    escaped = token.replace("\\", "\\\\")
    return f'"{escaped}"'


def _value(text: str) -> str:
    if _PLAIN.fullmatch(text) and text not in _WORDS and text.lower() != "in":
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _query(tree: filters.Filter, *, outer: bool = False) -> str:
    match tree:
        case filters.Is(name, values) if len(values) == 1:
            return f"{_value(name)} = {_value(next(iter(values)))}"
        case filters.Is(name, values):
            return f"{_value(name)} in ({', '.join(map(_value, sorted(values)))})"
        case filters.Not(filters.Is(name, values)) if len(values) == 1:
            return f"{_value(name)} != {_value(next(iter(values)))}"
        case filters.Not(one):
            return f"NOT {_query(one)}"
        case filters.All(each) | filters.Any(each):
            joint = " AND " if isinstance(tree, filters.All) else " OR "
            text = joint.join(_query(one) for one in each)
            return text if outer else f"({text})"
        case _:
            raise KeyError(tree)
