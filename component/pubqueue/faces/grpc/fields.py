"""Topics, subscriptions and messages of `google.pubsub.v1`, from and to nodes and items."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.timestamp_pb2 import Timestamp

from pubqueue.faces.grpc import endpoints, topics
from pubqueue.faces.grpc.statuses import invalid, unimplemented
from pubqueue.faces.grpc.subscriptions import MAX_DEADLINE
from pubqueue.faces.grpc.wire import (
    BadNameError,
    ResourceKind,
    StoredMessage,
    ack_id,
    check_fields,
    message_of,
    name_of,
    node_of,
    topic_of,
    v1,
    waited,
)
from pubqueue.model.entities import DELIVERIES, DIED_IN, NodeName
from pubqueue.rules.nodeconfig import OWN
from pubqueue.rules.room import STATUS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from google.protobuf.duration_pb2 import Duration
    from google.protobuf.message import Message

    from pubqueue.model.entities import Item, Node, NodeConfig
    from pubqueue_xeps.wire.payloads.wrapper import Body


if TYPE_CHECKING:
    Settings = topics.Fields
    Read = Callable[[v1.Subscription], Settings]
    """Returns the settings of a field."""

# The fields of topics and subscriptions of `google.pubsub.v1`, and the settings of their nodes, in both directions. Pure.
#
# Before they are read, `FIELDS` of `wire` is asked which fields are refused: no field is accepted and ignored.


USUAL_DEADLINE: Final = 10
"""The default of an ack deadline in seconds, and its minimum."""

MAX_FILTER: Final = 256
"""Bytes of a filter."""

ATTEMPTS: Final = 5
MAX_ATTEMPTS: Final = 100
"""Deliveries until a message dies, if a policy does not say how many, and at most."""

IMMORTAL: Final = 1_000_000
"""Deliveries without a policy: no message dies."""

NO_PAUSE: Final = 1
"""Seconds between attempts without a policy, after the first repetition, which comes at once."""

MIN_BACKOFF: Final = 10
MAX_BACKOFF: Final = 600
"""The default of a retry policy's bounds in seconds, and the maximum."""

ORDERED: Final = 100
UNORDERED: Final = 1_000
"""How many messages of an ordering key may be outstanding, with and without ordering."""

ONE_BY_ONE: Final = 1
"""The same with ordering, in subscriptions that are older than sending ahead."""

DAY: Final = 86_400
RETENTION: Final = 7 * DAY
MIN_RETENTION: Final = 600
MAX_RETENTION: Final = 31 * DAY
"""Seconds for which unacknowledged messages are kept: by default, at least and at most."""

MAX_TTL: Final = 100 * 365 * DAY
"""The maximum seconds after which an unused subscription expires; the minimum is a day."""

MAX_LABELS: Final = 64
_LABEL: Final = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_VALUE: Final = re.compile(r"[a-z0-9_-]{0,63}")


def _ack_deadline(given: v1.Subscription) -> Settings:
    deadline = given.ack_deadline_seconds or USUAL_DEADLINE
    if not USUAL_DEADLINE <= deadline <= MAX_DEADLINE:
        raise invalid(f"ack_deadline_seconds must be from {USUAL_DEADLINE} to {MAX_DEADLINE}")
    return {"lock_timeout": deadline, "lock_longest": MAX_DEADLINE}


def _filter(given: v1.Subscription) -> Settings:
    if len(given.filter.encode()) > MAX_FILTER:
        raise invalid(f"filter has more than {MAX_FILTER} bytes")
    return {"filter": given.filter}


def _ordering(given: v1.Subscription) -> Settings:
    if given.enable_message_ordering:
        return {"group_limit": ORDERED, "group_ahead": "1"}
    return {"group_limit": UNORDERED}


def _retry(given: v1.Subscription) -> Settings:
    if not given.HasField("retry_policy"):
        return {"backoff_min": NO_PAUSE, "backoff_max": NO_PAUSE}
    policy = given.retry_policy
    least = _span(policy, "minimum_backoff", MIN_BACKOFF)
    most = _span(policy, "maximum_backoff", MAX_BACKOFF)
    if least > most:
        raise invalid("retry_policy.minimum_backoff is above maximum_backoff")
    return {"backoff_min": least, "backoff_max": most}


def _span(policy: v1.RetryPolicy, name: str, usual: int) -> int:
    if not policy.HasField(name):
        return usual
    return whole_seconds(getattr(policy, name), f"retry_policy.{name}", 0, MAX_BACKOFF)


def _labels(given: v1.Subscription | v1.Topic) -> Settings:
    found = dict(given.labels)
    if len(found) > MAX_LABELS:
        raise invalid(f"labels: at most {MAX_LABELS}")
    for name, value in found.items():
        if _LABEL.fullmatch(name) is None or _VALUE.fullmatch(value) is None:
            raise invalid(
                f"labels: {name!a} is a lower-case letter and up to 62 of a-z, 0-9, _ and -; a value has up to 63 of these"
            )
        if name.startswith(OWN):
            raise invalid(f"labels: names that begin with {OWN} are the service's own")
    return {"labels": found}


def whole_seconds(given: Duration, name: str, low: int, high: int) -> int:
    """Return a span in seconds.

    Raises:
        CallError: it is out of bounds, or has a fraction, which no setting of a queue has.

    """
    if given.nanos or not low <= given.seconds <= high:
        raise invalid(f"{name} must be whole seconds from {low} to {high}")
    return given.seconds


def _dead_letters(given: v1.Subscription) -> Settings:
    if not given.HasField("dead_letter_policy"):
        return {"dead_letter_node": "", "max_failures": IMMORTAL}
    policy = given.dead_letter_policy
    attempts = policy.max_delivery_attempts or ATTEMPTS
    if not ATTEMPTS <= attempts <= MAX_ATTEMPTS:
        raise invalid(f"max_delivery_attempts must be from {ATTEMPTS} to {MAX_ATTEMPTS}")
    try:
        node = node_of(policy.dead_letter_topic, ResourceKind.TOPIC)
    except BadNameError as problem:
        raise invalid(f"dead_letter_topic: {problem}") from None
    return {"dead_letter_node": node, "max_failures": attempts}


def _exactly_once(given: v1.Subscription) -> Settings:
    return {topics.EXACTLY_ONCE: "1" if given.enable_exactly_once_delivery else None}


def _retention(given: v1.Subscription) -> Settings:
    kept = RETENTION
    if given.HasField("message_retention_duration"):
        span = given.message_retention_duration
        kept = whole_seconds(span, "message_retention_duration", MIN_RETENTION, MAX_RETENTION)
    return {"item_expire": kept, "expired": "drop"}


def _acked(given: v1.Subscription) -> Settings:
    return {"keep_done": given.retain_acked_messages}


def _expiration(given: v1.Subscription) -> Settings:
    if not given.expiration_policy.HasField("ttl"):
        return {"unused_expire": ""}  # it never expires
    ttl = given.expiration_policy.ttl
    return {"unused_expire": whole_seconds(ttl, "expiration_policy.ttl", DAY, MAX_TTL)}


ROWS: Final[Mapping[str, Read]] = {
    "ack_deadline_seconds": _ack_deadline,
    "filter": _filter,
    "enable_message_ordering": _ordering,
    "retry_policy": _retry,
    "labels": _labels,
    "enable_exactly_once_delivery": _exactly_once,
    "message_retention_duration": _retention,
    "retain_acked_messages": _acked,
    "expiration_policy": _expiration,
    "dead_letter_policy": _dead_letters,
}
"""The fields of a subscription that are settings of its queue; each is read also if it is not set. A mark is in the setting `labels`."""

PUSH_CONFIG: Final = "push_config"

FIXED: Final = frozenset({"name", "topic", "filter", "enable_message_ordering"})
"""Fields of a subscription that are never updated."""

OF_SERVICE: Final = frozenset(
    {"name", "topic", "state", "topic_message_retention_duration", "detached"}
)
"""Fields of a subscription that are its names, or that the service alone sets."""


def _push(given: v1.Subscription, push_to: Iterable[str]) -> Settings:
    """Return the mark of the push config of a subscription."""
    config = given.push_config
    return {endpoints.PUSH: endpoints.checked(config.push_endpoint, config.attributes, push_to)}


def push_updated(config: v1.PushConfig, push_to: Iterable[str]) -> Settings:
    """Return the settings of another push config.

    Raises:
        CallError: the endpoint is invalid, or may not be called.

    """
    return _push(v1.Subscription(push_config=config), push_to)


def settings(given: v1.Subscription, push_to: Iterable[str]) -> Settings:
    """Return the settings of a new subscription.

    Raises:
        CallError: a field is invalid, or is not supported.

    """
    found: Settings = {}
    for read in ROWS.values():
        found |= read(given)
    return found | _push(given, push_to)


def updated(
    given: v1.Subscription, paths: Iterable[str], push_to: Iterable[str], now: v1.Subscription
) -> Settings:
    """Return the settings of an update: those of the paths alone. A path into a field leaves the rest of the field as it is now.

    Raises:
        CallError: there is no path, one cannot be updated or is not a field, or a value is invalid.

    """
    wanted = v1.Subscription()
    wanted.CopyFrom(now)
    mask = FieldMask(paths=_checked(paths, now, FIXED))
    mask.MergeMessage(given, wanted, True, True)  # noqa: FBT003  # it replaces
    found: Settings = {}
    for path in dict.fromkeys(path.partition(".")[0] for path in mask.paths):
        if path == PUSH_CONFIG:
            check_fields(given.push_config, f"{PUSH_CONFIG}.")
            found |= _push(wanted, push_to)
            continue
        row = ROWS.get(path)
        if row is None:
            raise unimplemented(path)
        found |= row(wanted)
    return found


def topic_updated(given: v1.Topic, paths: Iterable[str]) -> Settings:
    """Return the settings of an update of a topic: its labels.

    Raises:
        CallError: as `updated`.

    """
    for path in _checked(paths, v1.Topic(), frozenset({"name"})):
        if path != "labels":
            raise unimplemented(path)
    return _labels(given)


def _checked(paths: Iterable[str], kind: Message, fixed: frozenset[str]) -> list[str]:
    found = list(dict.fromkeys(paths))
    if not found:
        raise invalid("The update_mask in the request must be set and not empty.")
    for path in found:
        head, rest = path.partition(".")[::2]
        field = kind.DESCRIPTOR.fields_by_name.get(head)
        inner = field.message_type if field is not None and not field.is_repeated else None
        is_there = field is not None and head not in fixed and head not in OF_SERVICE
        if not is_there or ("." in path and (inner is None or rest not in inner.fields_by_name)):
            raise invalid(f"Invalid update_mask provided in the request: {path[:100]!a}")
    return found


def topic_settings(given: v1.Topic) -> Settings:
    """Return the settings of a new topic.

    Raises:
        CallError: a field is not supported.

    """
    return _labels(given)


def topic_shown(node: Node) -> v1.Topic:
    """Return a topic with the settings of its node."""
    return v1.Topic(
        name=name_of(node.name, ResourceKind.TOPIC),
        labels=topics.of_users(node.config),
        state=v1.Topic.ACTIVE,
    )


def shown(node: Node) -> v1.Subscription:
    """Return a subscription with the settings of its queue."""
    config = node.config
    found = v1.Subscription(
        name=name_of(node.name, ResourceKind.SUBSCRIPTION),
        topic=topic_of(node),
        ack_deadline_seconds=min(max(config.lock_timeout, USUAL_DEADLINE), MAX_DEADLINE),
        filter=config.filter,
        enable_message_ordering=is_ordered(node),
        labels=topics.of_users(config),
        retain_acked_messages=config.keep_done,
        enable_exactly_once_delivery=topics.has(config, topics.EXACTLY_ONCE),
        detached=topics.has(config, topics.DETACHED),
        state=v1.Subscription.ACTIVE,
    )
    found.expiration_policy.SetInParent()
    if config.unused_expire is not None:
        found.expiration_policy.ttl.seconds = config.unused_expire
    if (push := endpoints.kept(config)) is not None:
        found.push_config.push_endpoint = push.endpoint
        found.push_config.attributes.update(push.attributes)
    if config.item_expire is not None:
        found.message_retention_duration.seconds = config.item_expire
    if config.dead_letter_node:
        dead_letters = NodeName(config.dead_letter_node)
        found.dead_letter_policy.dead_letter_topic = name_of(dead_letters, ResourceKind.TOPIC)
        found.dead_letter_policy.max_delivery_attempts = config.max_failures
    if not _is_without_policy(config):
        found.retry_policy.minimum_backoff.seconds = config.backoff_min
        found.retry_policy.maximum_backoff.seconds = config.backoff_max
    return found


def is_ordered(node: Node) -> bool:
    """Return whether messages of an ordering key are delivered in order."""
    return node.config.group_ahead or node.config.group_limit == ONE_BY_ONE


def _is_without_policy(config: NodeConfig) -> bool:
    return config.backoff_min == config.backoff_max == NO_PAUSE


# From messages of `google.pubsub.v1` to those of the face, and back. Pure.

DEAD: Final = "CloudPubSubDeadLetter"
"""The prefix of the attributes with the origin of a dead message."""

EVENT: Final = "x-pubqueue-event"
"""The attribute of an event of the subscription, which is not a message."""


def written(item: Item, payload: bytes, body: Body | None = None) -> v1.PubsubMessage:
    """Return the message of an item; `body`, if its payload was unwrapped already."""
    message = v1.PubsubMessage()
    _write(message, item, payload, body)
    return message


def _write(message: v1.PubsubMessage, item: Item, payload: bytes, body: Body | None) -> None:
    """Write an item into a message: one that is put into another is copied."""
    found = message_of(payload, item.headers, body)
    if payload == STATUS:
        found = StoredMessage(b"", {EVENT: "truncated"})
    else:
        found.attributes.update(_of_death(item) | waited(item))
    message.data = found.data
    message.attributes.update(found.attributes)
    message.message_id = item.id
    message.ordering_key = found.ordering_key
    message.publish_time.FromMilliseconds(item.published)


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


def add_received(
    answer: v1.PullResponse | v1.StreamingPullResponse,
    node: Node,
    item: Item,
    payload: bytes,
    body: Body | None,
) -> None:
    """Add an item of the node that is locked to the caller to an answer. Attempts are counted if messages can die.

    `body` is given if its payload was unwrapped already.
    """
    one = answer.received_messages.add()
    one.ack_id = ack_id(item)
    one.delivery_attempt = item.failed + 1 if node.config.dead_letter_node else 0
    _write(one.message, item, payload, body)
