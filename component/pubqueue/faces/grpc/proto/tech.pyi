# Written by tools/protos.
from collections.abc import Iterable, Mapping, MutableMapping

from google.protobuf import duration_pb2, empty_pb2, field_mask_pb2, struct_pb2, timestamp_pb2
from google.protobuf.internal.containers import RepeatedCompositeFieldContainer, RepeatedScalarFieldContainer
from google.protobuf.message import Message

class Empty(Message):
    def __init__(self) -> None: ...

class Label(Message):
    key: str
    str_value: str
    num_value: int
    def __init__(self, *, key: str | None = ..., str_value: str | None = ..., num_value: int | None = ...) -> None: ...

class Topic(Message):
    name: str
    def __init__(self, *, name: str | None = ...) -> None: ...

class PubsubMessage(Message):
    data: bytes
    label: RepeatedCompositeFieldContainer[Label]
    message_id: str
    def __init__(self, *, data: bytes | None = ..., label: Iterable[Label] | None = ..., message_id: str | None = ...) -> None: ...

class GetTopicRequest(Message):
    topic: str
    def __init__(self, *, topic: str | None = ...) -> None: ...

class PublishRequest(Message):
    topic: str
    message: PubsubMessage
    def __init__(self, *, topic: str | None = ..., message: PubsubMessage | None = ...) -> None: ...

class PublishBatchRequest(Message):
    topic: str
    messages: RepeatedCompositeFieldContainer[PubsubMessage]
    def __init__(self, *, topic: str | None = ..., messages: Iterable[PubsubMessage] | None = ...) -> None: ...

class PublishBatchResponse(Message):
    message_ids: RepeatedScalarFieldContainer[str]
    def __init__(self, *, message_ids: Iterable[str] | None = ...) -> None: ...

class ListTopicsRequest(Message):
    query: str
    max_results: int
    page_token: str
    def __init__(self, *, query: str | None = ..., max_results: int | None = ..., page_token: str | None = ...) -> None: ...

class ListTopicsResponse(Message):
    topic: RepeatedCompositeFieldContainer[Topic]
    next_page_token: str
    def __init__(self, *, topic: Iterable[Topic] | None = ..., next_page_token: str | None = ...) -> None: ...

class DeleteTopicRequest(Message):
    topic: str
    def __init__(self, *, topic: str | None = ...) -> None: ...

class Subscription(Message):
    class TruncationPolicy(Message):
        max_bytes: int
        max_age_seconds: int
        def __init__(self, *, max_bytes: int | None = ..., max_age_seconds: int | None = ...) -> None: ...
    name: str
    topic: str
    query: str
    truncation_policy: Subscription.TruncationPolicy
    push_config: PushConfig
    ack_deadline_seconds: int
    garbage_collect_seconds: int
    def __init__(self, *, name: str | None = ..., topic: str | None = ..., query: str | None = ..., truncation_policy: Subscription.TruncationPolicy | None = ..., push_config: PushConfig | None = ..., ack_deadline_seconds: int | None = ..., garbage_collect_seconds: int | None = ...) -> None: ...

class PushConfig(Message):
    push_endpoint: str
    def __init__(self, *, push_endpoint: str | None = ...) -> None: ...

class PubsubEvent(Message):
    subscription: str
    message: PubsubMessage
    truncated: bool
    deleted: bool
    def __init__(self, *, subscription: str | None = ..., message: PubsubMessage | None = ..., truncated: bool | None = ..., deleted: bool | None = ...) -> None: ...

class GetSubscriptionRequest(Message):
    subscription: str
    def __init__(self, *, subscription: str | None = ...) -> None: ...

class ListSubscriptionsRequest(Message):
    query: str
    max_results: int
    page_token: str
    def __init__(self, *, query: str | None = ..., max_results: int | None = ..., page_token: str | None = ...) -> None: ...

class ListSubscriptionsResponse(Message):
    subscription: RepeatedCompositeFieldContainer[Subscription]
    next_page_token: str
    def __init__(self, *, subscription: Iterable[Subscription] | None = ..., next_page_token: str | None = ...) -> None: ...

class TruncateSubscriptionRequest(Message):
    subscription: str
    def __init__(self, *, subscription: str | None = ...) -> None: ...

class DeleteSubscriptionRequest(Message):
    subscription: str
    def __init__(self, *, subscription: str | None = ...) -> None: ...

class ModifyPushConfigRequest(Message):
    subscription: str
    push_config: PushConfig
    def __init__(self, *, subscription: str | None = ..., push_config: PushConfig | None = ...) -> None: ...

class PullRequest(Message):
    subscription: str
    return_immediately: bool
    def __init__(self, *, subscription: str | None = ..., return_immediately: bool | None = ...) -> None: ...

class PullResponse(Message):
    ack_id: str
    pubsub_event: PubsubEvent
    def __init__(self, *, ack_id: str | None = ..., pubsub_event: PubsubEvent | None = ...) -> None: ...

class PullBatchRequest(Message):
    subscription: str
    return_immediately: bool
    max_events: int
    def __init__(self, *, subscription: str | None = ..., return_immediately: bool | None = ..., max_events: int | None = ...) -> None: ...

class PullBatchResponse(Message):
    pull_responses: RepeatedCompositeFieldContainer[PullResponse]
    def __init__(self, *, pull_responses: Iterable[PullResponse] | None = ...) -> None: ...

class ModifyAckDeadlineRequest(Message):
    subscription: str
    ack_id: str
    ack_deadline_seconds: int
    def __init__(self, *, subscription: str | None = ..., ack_id: str | None = ..., ack_deadline_seconds: int | None = ...) -> None: ...

class AcknowledgeRequest(Message):
    subscription: str
    ack_id: RepeatedScalarFieldContainer[str]
    def __init__(self, *, subscription: str | None = ..., ack_id: Iterable[str] | None = ...) -> None: ...

class NackRequest(Message):
    subscription: str
    ack_id: RepeatedScalarFieldContainer[str]
    def __init__(self, *, subscription: str | None = ..., ack_id: Iterable[str] | None = ...) -> None: ...
