"""Topics, for both bindings: plain nodes that publishers publish to, and that feed subscriptions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.faces.grpc.wire.names import ResourceKind
from pubqueue.faces.grpc.wire.payloads import draft_of
from pubqueue.faces.grpc.wire.statuses import invalid
from pubqueue.model.decision import Published
from pubqueue.model.replies import Described
from pubqueue.rules.discovery import Describe
from pubqueue.rules.nodeconfig import MAX_PAYLOAD_BYTES, Settings
from pubqueue.rules.nodes import Configure, Create, Delete
from pubqueue.rules.publication import Publish

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pubqueue.faces.grpc.calls import Call
    from pubqueue.faces.grpc.wire.payloads import Message
    from pubqueue.model.entities import Node
    from pubqueue.rules.nodeconfig import Value

MAX_MESSAGES: Final = 1_000
"""Messages of one publish."""

MAX_PUBLISH_BYTES: Final = 10_000_000
"""Bytes of one publish."""

SETTINGS: Final[Mapping[str, Value]] = {
    "persist_items": "0",
    "publish_model": "publishers",
    "access_model": "whitelist",
    "max_payload_size": MAX_PAYLOAD_BYTES,
}
"""Settings of the node of a new topic."""


async def create(call: Call, name: str, more: Mapping[str, Value] | None = None) -> None:
    """Create a topic.

    Raises:
        CallError: it exists, or the account may not.

    """
    node = call.node(name, ResourceKind.TOPIC, creates=True)
    await call.ask(Create(call.by, node, Settings({**SETTINGS, **(more or {})})), name)


async def found(call: Call, name: str, field: str = "topic") -> Node:
    """Return the node of a topic.

    Raises:
        CallError: there is none that the account may know of.

    """
    node = call.node(name, ResourceKind.TOPIC, field)
    reply = await call.ask(Describe(call.by, node, manage=False, known=True), name)
    assert isinstance(reply, Described)
    return reply.node


async def publish(call: Call, name: str, published: Sequence[Message], size: int) -> list[str]:
    """Publish messages, all or none, and return their ids. `size` is the bytes of the request.

    Raises:
        CallError: a message does not fit, or the topic is not there.

    """
    node = call.node(name, ResourceKind.TOPIC, "topic")
    if not published:
        raise invalid("messages is empty: at least one message is required")
    if len(published) > MAX_MESSAGES:
        raise invalid(f"The value for message_count is too large: at most {MAX_MESSAGES} messages")
    if size > MAX_PUBLISH_BYTES:
        raise invalid(f"The value for request_size is too large: at most {MAX_PUBLISH_BYTES} bytes")
    ids = call.backend.new_ids(len(published))
    drafts = tuple(draft_of(one, own) for one, own in zip(published, ids, strict=True))
    del published  # the data may be large, and the drafts have it as it is stored
    reply = await call.ask(Publish(call.by, node, drafts), name, size)
    assert isinstance(reply, Published)
    return list(reply.ids)


async def delete(call: Call, name: str, *, with_subscriptions: bool) -> None:
    """Delete a topic with its subscriptions, or leave these with their messages.

    Raises:
        CallError: there is none, or the account may not.

    """
    node = await found(call, name)
    await call.ask(Delete(call.by, node.name, with_fed=with_subscriptions), name)


async def configure(call: Call, name: str, settings: Mapping[str, Value]) -> None:
    """Change settings of the node of a topic.

    Raises:
        CallError: there is none, or the account may not.

    """
    node = call.node(name, ResourceKind.TOPIC, "topic")
    await call.ask(Configure(call.by, node, Settings(settings)), name)
