"""What both bindings have on the wire: names, ack ids, messages and payloads."""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from enum import StrEnum, unique
from functools import cache
from hashlib import sha256
from importlib import resources
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote, unquote_to_bytes

import msgspec
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from msgspec import Struct

from pubqueue.faces.grpc.statuses import invalid, unimplemented
from pubqueue.faces.waiting import came_for
from pubqueue.model.entities import MAX_GROUP_LENGTH, Draft, ItemId, Jid, NodeName, account_of
from pubqueue.rules.settle_each import LockName
from pubqueue.rules.validity import is_group
from pubqueue_xeps.wire.names import ILLEGAL
from pubqueue_xeps.wire.payloads.content_type import HEADER as CONTENT_TYPE
from pubqueue_xeps.wire.payloads.wrapper import unwrap, wrap

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from google.protobuf.descriptor import Descriptor, ServiceDescriptor
    from google.protobuf.message import Message

    from pubqueue.faces.grpc.proto import iam as iam  # noqa: PLC0414  # names for others
    from pubqueue.faces.grpc.proto import tech as tech  # noqa: PLC0414
    from pubqueue.faces.grpc.proto import v1 as v1  # noqa: PLC0414
    from pubqueue.model.entities import Headers, Item, Node
    from pubqueue_xeps.wire.payloads.wrapper import Body


# Names of topics and subscriptions, and the nodes that have them: total in both directions, and pure.
#
# `projects/P/topics/T` is the node of the same name. Each other node has a name in the project `xmpp`, where its NodeID is
# percent-encoded. So a node has one name as a topic and one as a subscription.

BRIDGE: Final = "xmpp"
"""The project of the nodes that have no name of the form of Pub/Sub. It is too short to be a project of Google's."""

MAX_BRIDGED: Final = 255
"""The maximum characters of an encoded NodeID."""

DELETED: Final = "_deleted-topic_"
"""The topic of a subscription whose topic is gone."""

_PROJECT: Final = r"[a-z0-9][a-z0-9.:-]{0,62}"
_ID: Final = r"(?!goog)[A-Za-z][A-Za-z0-9_.~+%-]{2,254}"
_BRIDGED: Final = re.compile(r"(?:[A-Za-z0-9_.~+-]|%[0-9A-F]{2})+")
_AS_IT_IS: Final = "~+"
"""Characters that are not encoded, in addition to letters, digits, `_`, `.` and `-`."""


class BadNameError(ValueError):
    """A text that is not a name; the message says what is expected."""


@unique
class ResourceKind(StrEnum):
    """The kind of resource of a name."""

    TOPIC = "topics"
    SUBSCRIPTION = "subscriptions"

    @property
    def word(self) -> str:
        """The kind in the singular."""
        return self.value[:-1]


_FORMS: Final[Mapping[ResourceKind, re.Pattern[str]]] = {
    kind: re.compile(f"projects/(?P<project>{_PROJECT})/{kind.value}/(?P<id>{_ID})")
    for kind in ResourceKind
}
_BRIDGES: Final[Mapping[ResourceKind, str]] = {
    kind: f"projects/{BRIDGE}/{kind.value}/" for kind in ResourceKind
}
_TECH: Final = re.compile(r"/?(?:(?P<kind>topics|subscriptions)/)?(?P<project>[^/]+)/(?P<id>[^/]+)")


def node_of(name: str, kind: ResourceKind) -> NodeName:
    """Return the node that has the name.

    Raises:
        BadNameError: the text is not the name of something of this kind.

    """
    if name.startswith(_BRIDGES[kind]):
        return _bridged(name, kind)
    if _FORMS[kind].fullmatch(name) is None:
        raise BadNameError(
            f"Invalid {kind.word} name: (name={name[:MAX_BRIDGED]!r}); expected projects/PROJECT/{kind.value}/NAME, where NAME is a"
            " letter and 2 to 254 letters, digits and -_.~+%, not beginning with goog"
        )
    return NodeName(name)


def name_of(node: NodeName, kind: ResourceKind) -> str:
    """Return the name of a node as something of this kind."""
    if _is_own(node, kind):
        return node
    return _BRIDGES[kind] + quote(node.encode("utf-8", "surrogatepass"), safe=_AS_IT_IS)


def topic_of(queue: Node) -> str:
    """Return the name of the topic of a subscription: a queue of another protocol that no node feeds is its own topic."""
    if queue.config.source:
        return name_of(NodeName(queue.config.source), ResourceKind.TOPIC)
    own = name_of(queue.name, ResourceKind.SUBSCRIPTION)
    return name_of(queue.name, ResourceKind.TOPIC) if is_bridged(own) else DELETED


def project_of(name: str) -> str:
    """Return the project in a name of either kind."""
    return name.split("/", 2)[1]


def is_project(text: str) -> bool:
    """Return whether a project can have that name."""
    return re.fullmatch(_PROJECT, text) is not None


def is_bridged(name: str) -> bool:
    """Return whether the name is of a node that has no name of the form of Pub/Sub."""
    return project_of(name) == BRIDGE


def _is_own(node: str, kind: ResourceKind) -> bool:
    found = _FORMS[kind].fullmatch(node)
    return found is not None and found["project"] != BRIDGE


def _bridged(name: str, kind: ResourceKind) -> NodeName:
    text = name.removeprefix(_BRIDGES[kind])
    if _BRIDGED.fullmatch(text) is None or len(text) > MAX_BRIDGED:
        raise BadNameError(
            f"Invalid {kind.word} name: in the project {BRIDGE} it is a NodeID of 1 to {MAX_BRIDGED} characters, in which each byte"
            " but letters, digits and -_.~+ is %XX"
        )
    try:
        node = unquote_to_bytes(text).decode()
    except UnicodeDecodeError:
        raise BadNameError(f"Invalid {kind.word} name: the NodeID must be UTF-8") from None
    if name_of(NodeName(node), kind) != name:
        raise BadNameError(
            f"Invalid {kind.word} name: the name of this node is {name_of(NodeName(node), kind)}"
        )
    return NodeName(node)


def of_tech(name: str, kind: ResourceKind) -> str:
    """Return a name of `tech.pubsub` in the form of v1: `/topics/P/T`, `/subscriptions/P/S` or `P/S`; others unchanged."""
    found = None if name.startswith("projects/") else _TECH.fullmatch(name)
    if found is None or (found["kind"] or kind.value) != kind.value:
        return name
    if found["kind"] is None and (kind is ResourceKind.TOPIC or name.startswith("/")):
        return name
    return f"projects/{found['project']}/{kind.value}/{found['id']}"


def to_tech(name: str, kind: ResourceKind) -> str:
    """Return a name of v1 in the form of `tech.pubsub`; the topic that is gone unchanged."""
    if name == DELETED:
        return name
    _, project, _, rest = name.split("/", 3)
    return f"/topics/{project}/{rest}" if kind is ResourceKind.TOPIC else f"{project}/{rest}"


# Ack ids: a text that names one lock, its item, its token and its holder. Pure.
#
# They need no signature: a lock is settled in the name of its holder, and only if the account of the holder sends the request. A
# forged id reaches only the sender's own locks.

MAX_LENGTH: Final = 8_192
"""The maximum characters of an ack id: ids of items and addresses have up to 1,023 bytes."""


class _Lock(msgspec.Struct, array_like=True, frozen=True, gc=False):
    item: str
    token: int
    account: str
    resource: str = ""


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(_Lock).decode


def ack_id(item: Item) -> str:
    """Return the ack id of an item that is locked."""
    assert item.holder is not None
    account, _, resource = item.holder.partition("/")
    return _written(_Lock(item.id, item.token, account, resource))


def _written(lock: _Lock) -> str:
    return urlsafe_b64encode(_encode(lock)).decode().rstrip("=")


def lock_of(text: str, account: Jid) -> LockName | None:
    """Return the lock of an ack id, or None if the text is not an ack id, or one of another account."""
    if len(text) > MAX_LENGTH:
        return None
    try:
        lock = _decode(urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4)))
    except (NotBase64, ValueError, msgspec.MsgspecError):
        return None
    holder = Jid(f"{lock.account}/{lock.resource}" if lock.resource else lock.account)
    if account_of(holder) != account or lock.token < 0 or _written(lock) != text:
        return None
    return LockName(ItemId(lock.item), lock.token, holder)


# The messages and services of the protocol, in a pool of descriptors of their own.
#
# Generated modules would register in protobuf's default pool, where the packages of other programs have some of the same names.


def _pool() -> DescriptorPool:
    pool = DescriptorPool()
    data = resources.files("pubqueue.faces.grpc.proto").joinpath("protos.binpb").read_bytes()
    for file in FileDescriptorSet.FromString(data).file:
        pool.Add(file)
    return pool


POOL = _pool()
"""All descriptors of the protocol, also for reflection."""


@cache
def class_of(full_name: str) -> type[Message]:
    """Return the class of a message. Raises KeyError for an unknown one."""
    return class_for(POOL.FindMessageTypeByName(full_name))


def class_for(descriptor: Descriptor) -> type[Message]:
    """Return the class of the messages of a descriptor."""
    return GetMessageClass(descriptor)


def service(full_name: str) -> ServiceDescriptor:
    """Return the descriptor of a service."""
    return POOL.FindServiceByName(full_name)


def is_text(message: Message) -> bool:
    """Return whether all strings of a message are text. protobuf returns bytes for one of proto2 that is not UTF-8."""
    for field, value in message.ListFields():
        values = value if field.is_repeated else (value,)
        if field.message_type:
            if not all(map(is_text, values)):
                return False
        elif field.type == field.TYPE_STRING and any(isinstance(one, bytes) for one in values):
            return False
    return True


# The fields of requests: those that are honoured, those that cannot matter, and those that are refused by their names. Pure.
#
# No field is accepted and ignored (decision 146). What a message has a row for is compared in one place, before the rpc. A slash: the
# message in it has a row of its own, and is compared, too. Numbers of fields of later versions are passed over, as protobuf has it. Fields
# that an update does not name are not looked at, as its mask says.


class Listed(NamedTuple):
    """The fields of a message: `inner` are messages that are compared, too."""

    honoured: frozenset[str]
    idle: frozenset[str] = frozenset()
    refused: frozenset[str] = frozenset()
    inner: frozenset[str] = frozenset()


def _listed(text: str) -> Listed:
    parts = [frozenset(part.replace("/", "").split()) for part in text.split("|")]
    honoured, idle, refused = (*parts, frozenset[str](), frozenset[str]())[:3]
    return Listed(honoured, idle, refused, frozenset(re.findall(r"(\w+)/", text)))


# fmt: off
FIELDS: Final[Mapping[str, Listed]] = {name: _listed(text) for name, text in {
    "tech.pubsub.Topic":                         "name",
    "tech.pubsub.PublishRequest":                "topic message/",
    "tech.pubsub.PubsubMessage":                 "data label message_id",  # an id is refused by its reader
    "tech.pubsub.PublishBatchRequest":           "topic messages",
    "tech.pubsub.GetTopicRequest":               "topic",
    "tech.pubsub.ListTopicsRequest":             "query max_results page_token",
    "tech.pubsub.DeleteTopicRequest":            "topic",
    "tech.pubsub.Subscription":                  "name topic query truncation_policy/ push_config/ ack_deadline_seconds garbage_collect_seconds",
    "tech.pubsub.Subscription.TruncationPolicy": "max_bytes max_age_seconds",
    "tech.pubsub.PushConfig":                    "push_endpoint",
    "tech.pubsub.GetSubscriptionRequest":        "subscription",
    "tech.pubsub.ListSubscriptionsRequest":      "query max_results page_token",
    "tech.pubsub.DeleteSubscriptionRequest":     "subscription",
    "tech.pubsub.TruncateSubscriptionRequest":   "subscription",
    "tech.pubsub.ModifyPushConfigRequest":       "subscription push_config/",
    "tech.pubsub.PullRequest":                   "subscription return_immediately",
    "tech.pubsub.PullBatchRequest":              "subscription return_immediately max_events",
    "tech.pubsub.ModifyAckDeadlineRequest":      "subscription ack_id ack_deadline_seconds",
    "tech.pubsub.AcknowledgeRequest":            "subscription ack_id",
    "tech.pubsub.NackRequest":                   "subscription ack_id",

    # of topics and subscriptions, the service alone sets what cannot matter
    "google.pubsub.v1.Topic":
        "name labels | state satisfies_pzs"
        " | message_storage_policy kms_key_name schema_settings message_retention_duration ingestion_data_source_settings message_transforms tags",
    "google.pubsub.v1.UpdateTopicRequest":            "topic update_mask",
    "google.pubsub.v1.PublishRequest":                "topic messages",
    "google.pubsub.v1.PubsubMessage":                 "data attributes ordering_key | message_id publish_time",
    "google.pubsub.v1.GetTopicRequest":               "topic",
    "google.pubsub.v1.ListTopicsRequest":             "project page_size page_token",
    "google.pubsub.v1.ListTopicSubscriptionsRequest": "topic page_size page_token",
    "google.pubsub.v1.ListTopicSnapshotsRequest":     "topic page_token | page_size",
    "google.pubsub.v1.DeleteTopicRequest":            "topic",
    "google.pubsub.v1.DetachSubscriptionRequest":     "subscription",
    "google.pubsub.v1.Subscription":
        "name topic push_config/ ack_deadline_seconds retain_acked_messages message_retention_duration labels enable_message_ordering"
        " expiration_policy/ filter dead_letter_policy/ retry_policy/ enable_exactly_once_delivery"
        " | detached topic_message_retention_duration state analytics_hub_subscription_info"
        " | bigquery_config cloud_storage_config bigtable_config message_transforms tags",
    "google.pubsub.v1.PushConfig":                    "push_endpoint attributes pubsub_wrapper/ | | oidc_token no_wrapper",
    "google.pubsub.v1.PushConfig.PubsubWrapper":      "",
    "google.pubsub.v1.ExpirationPolicy":              "ttl",
    "google.pubsub.v1.DeadLetterPolicy":              "dead_letter_topic max_delivery_attempts",
    "google.pubsub.v1.RetryPolicy":                   "minimum_backoff maximum_backoff",
    "google.pubsub.v1.GetSubscriptionRequest":        "subscription",
    "google.pubsub.v1.UpdateSubscriptionRequest":     "subscription update_mask",
    "google.pubsub.v1.ListSubscriptionsRequest":      "project page_size page_token",
    "google.pubsub.v1.DeleteSubscriptionRequest":     "subscription",
    "google.pubsub.v1.ModifyAckDeadlineRequest":      "subscription ack_ids ack_deadline_seconds",
    "google.pubsub.v1.AcknowledgeRequest":            "subscription ack_ids",
    "google.pubsub.v1.PullRequest":                   "subscription return_immediately max_messages",
    "google.pubsub.v1.StreamingPullRequest":
        "subscription ack_ids modify_deadline_seconds modify_deadline_ack_ids stream_ack_deadline_seconds max_outstanding_messages"
        " max_outstanding_bytes | client_id protocol_version",  # locks are kept over streams without them
    "google.pubsub.v1.ModifyPushConfigRequest":       "subscription push_config/",
    "google.pubsub.v1.ListSnapshotsRequest":          "project page_token | page_size",
    "google.pubsub.v1.SeekRequest":                   "subscription time | | snapshot",

    "google.iam.v1.SetIamPolicyRequest":       "resource policy/ update_mask",
    "google.iam.v1.Policy":                    "version bindings/ etag | | audit_configs",
    "google.iam.v1.Binding":                   "role members | | condition",
    "google.iam.v1.GetIamPolicyRequest":       "resource options/",
    "google.iam.v1.GetPolicyOptions":          "requested_policy_version",
    "google.iam.v1.TestIamPermissionsRequest": "resource permissions",
}.items()}
# fmt: on
"""The fields of each message that a request is, or has."""


def check_fields(message: Message, path: str = "") -> None:
    """Check that no field of a request would be ignored.

    Raises:
        CallError: one would.

    """
    listed = FIELDS.get(message.DESCRIPTOR.full_name)
    if listed is None:
        return
    for field, value in message.ListFields():
        if field.name in listed.refused:
            raise unimplemented(path + field.name)
        if field.name in listed.inner:
            for one in value if field.is_repeated else (value,):
                check_fields(one, f"{path}{field.name}.")


class _Package:
    """The classes of some packages, by their names."""

    def __init__(self, *packages: str) -> None:
        self._packages = packages

    def __getattr__(self, name: str) -> type[Message]:
        for package in self._packages:
            try:
                found = class_of(f"{package}.{name}")
            except KeyError:
                continue
            setattr(self, name, found)
            return found
        raise AttributeError(name)


if not TYPE_CHECKING:
    tech: Any = _Package("tech.pubsub", "tech.label", "proto2")
    v1: Any = _Package("google.pubsub.v1")
    iam: Any = _Package("google.iam.v1", "google.type")


# From the data and attributes of a message to an item, and back. Pure.
#
# Attributes are the item's headers (XEP-0131). Headers that begin with `x-pubqueue-` are the service's own, and no message shows them.

OWN: Final = "x-pubqueue-"
"""The prefix of the service's own headers."""

NUMBERS: Final = "x-pubqueue-numbers"
"""The header that names the labels whose values are numbers."""

ORDERING: Final = "x-pubqueue-key"
"""The header with the ordering key."""

WOKEN: Final = f"{OWN}woken"
"""The attribute that says what has woken an item that was held."""

WAITED: Final = f"{OWN}waited"
"""The attribute with what has come for it, as JSON. Both are added to a message as it is sent, and no item has them as headers."""

MAX_KEY_LENGTH: Final = 256
MAX_VALUE_LENGTH: Final = 1_024
MAX_ATTRIBUTES: Final = 100
"""Bytes of a key and of a value, and attributes of one message."""

MAX_ORDERING_KEY_LENGTH: Final = 1_024
"""Bytes of an ordering key."""


class StoredMessage(Struct, frozen=True, gc=False):
    """A message of either binding. `numbers` are the labels whose values are numbers."""

    data: bytes
    attributes: dict[str, str]
    ordering_key: str = ""
    numbers: frozenset[str] = frozenset()


def draft_of(message: StoredMessage, name: ItemId) -> Draft:
    """Return the item that a message is published as.

    Raises:
        CallError: an attribute, or the ordering key, cannot be carried.

    """
    attributes, key = message.attributes, message.ordering_key
    _check_attributes(attributes)
    if key and ILLEGAL.search(key):
        raise invalid("ordering_key has a character that XML cannot carry")
    if len(key.encode()) > MAX_ORDERING_KEY_LENGTH:
        raise invalid(f"ordering_key has more than {MAX_ORDERING_KEY_LENGTH} bytes")
    type_ = attributes.get(CONTENT_TYPE)
    try:
        wrapped = wrap(message.data, type_ or None)
    except ValueError as problem:
        raise invalid(f"{problem}") from None
    headers = [(name, value) for name, value in attributes.items() if name != CONTENT_TYPE]
    if wrapped.header is not None or type_ == "":
        headers.append((CONTENT_TYPE, wrapped.header or ""))
    if message.numbers:
        headers.append((NUMBERS, " ".join(sorted(message.numbers))))
    if key:
        headers.append((ORDERING, key))
    group = group_of(key)
    return Draft(name, wrapped.xml, headers=tuple(headers), type=wrapped.space, group=group)


def group_of(key: str) -> str:
    """Return the group of the messages with this ordering key: the key itself, or its digest if it cannot be a group."""
    if not key or (is_group(key) and len(key.encode()) <= MAX_GROUP_LENGTH):
        return key
    return f"sha256:{sha256(key.encode()).hexdigest()}"


def type_of(headers: Headers) -> str | None:
    """Return the content type in the headers of an item."""
    return _joined(headers).get(CONTENT_TYPE) or None


def message_of(payload: bytes, headers: Headers, body: Body | None = None) -> StoredMessage:
    """Return the message of an item, whichever protocol it was published over; `body`, if it was unwrapped already."""
    attributes = _joined(headers)
    numbers = frozenset(attributes.pop(NUMBERS, "").split())
    key = attributes.pop(ORDERING, "")
    shown = {name: value for name, value in attributes.items() if not name.startswith(OWN)}
    if not payload:
        return StoredMessage(b"", shown, key, numbers)
    body = body or unwrap(payload, shown.get(CONTENT_TYPE) or None)
    if body.type is not None:
        shown[CONTENT_TYPE] = body.type
    return StoredMessage(body.data, shown, key, numbers)


def waited(item: Item) -> dict[str, str]:
    """Return the attributes of an item that has waited, or for which a signal has come: what woke it, and what has come."""
    if item.wait is None:
        return {}
    woken = {} if item.wait.woken is None else {WOKEN: item.wait.woken.value}
    return {**woken, WAITED: came_for(item.wait)}


def _check_attributes(attributes: dict[str, str]) -> None:
    if len(attributes) > MAX_ATTRIBUTES:
        raise invalid(f"a message has at most {MAX_ATTRIBUTES} attributes")
    for name, value in attributes.items():
        if not name or ILLEGAL.search(name) or ILLEGAL.search(value):
            raise invalid(f"attribute {name!a} is empty or has a character that XML cannot carry")
        if name.startswith(OWN):
            raise invalid(f"attribute {name!a}: names that begin with {OWN} are the service's own")
        if len(name.encode()) > MAX_KEY_LENGTH or len(value.encode()) > MAX_VALUE_LENGTH:
            raise invalid(
                f"attribute {name[:MAX_KEY_LENGTH]!a}: a key has at most {MAX_KEY_LENGTH} bytes, a value {MAX_VALUE_LENGTH}"
            )


def _joined(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the headers by their names; the values of a header that occurs twice are joined."""
    found: dict[str, str] = {}
    for name, value in headers:
        found[name] = f"{found[name]}, {value}" if name in found else value
    return found
