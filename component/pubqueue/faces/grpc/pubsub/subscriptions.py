"""Subscriptions, for both bindings: queues, fed by the node of their topic, from which items are pulled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.faces.grpc.pubsub import marks, topics
from pubqueue.faces.grpc.wire.names import ResourceKind
from pubqueue.faces.grpc.wire.statuses import not_found, unfit
from pubqueue.model.decision import Taken
from pubqueue.model.entities import seconds
from pubqueue.model.replies import Described
from pubqueue.rules.discovery import Describe
from pubqueue.rules.nodeconfig import MAX_PAYLOAD_BYTES, Settings
from pubqueue.rules.nodes import Configure, Create, Delete, Purge
from pubqueue.rules.seek import Seek
from pubqueue.rules.take import Take

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pubqueue.faces.grpc.calls import Call
    from pubqueue.model.entities import Item, Millis, Node
    from pubqueue.rules.nodeconfig import Value

MAX_PULLED: Final = 1_000
"""Messages of one answer."""

EARLY: Final = 0.1
"""Seconds before the client's own deadline in which a pull is answered."""

SETTINGS: Final[Mapping[str, Value]] = {
    "queueing": "1",
    "access_model": "whitelist",
    "publish_model": "publishers",
    "max_payload_size": MAX_PAYLOAD_BYTES,
    "max_queue_requests": 1_000_000,
    "max_failures": 1_000_000,
    "backoff_min": 1,
    "backoff_max": 1,
    "group_limit": 1_000,
}
"""Settings of the node of a new subscription."""


async def create(
    call: Call, name: str, topic: str, more: Mapping[str, Value], *, field: str = "name"
) -> None:
    """Create a subscription to a topic, with settings of its queue.

    Raises:
        CallError: it exists, its topic does not, or the account may not.

    """
    node = call.node(name, ResourceKind.SUBSCRIPTION, field, creates=True)
    source = await topics.found(call, topic)
    if source.config.queueing:
        raise unfit(f"{topic} is a queue, and only a plain node has subscriptions")
    wanted = {**SETTINGS, **more, "source": source.name}
    await call.ask(Create(call.by, node, Settings(wanted)), name)


async def found(call: Call, name: str, field: str = "subscription") -> Node:
    """Return the node of a subscription.

    Raises:
        CallError: there is none that the account may know of.

    """
    node = call.node(name, ResourceKind.SUBSCRIPTION, field)
    reply = await call.ask(Describe(call.by, node, manage=False, known=True), name)
    assert isinstance(reply, Described)
    if not reply.node.config.queueing:
        raise not_found(name)
    return reply.node


async def delete(call: Call, name: str) -> None:
    """Delete a subscription, with everything in it.

    Raises:
        CallError: there is none, or the account may not.

    """
    node = await found(call, name)
    await call.ask(Delete(call.by, node.name), name)


async def pull(call: Call, name: str, count: int, wait: float) -> list[tuple[Item, bytes]]:
    """Return up to `count` items, locked to the account; if there are none, wait so many seconds for the first.

    Raises:
        CallError: there is no subscription, or the account may not.

    """
    node = await found(call, name)
    check_attached(node)
    if call.left is not None:
        wait = max(0.0, min(wait, call.left - EARLY))
    by = call.backend.puller(call.account)
    request = Take(by, node.name, min(count, MAX_PULLED), seconds(wait))
    reply = await call.take(request, name)
    assert isinstance(reply, Taken)
    return list(reply.items)


async def truncate(call: Call, name: str, *, notify: bool = False) -> None:
    """Remove all messages of a subscription; with `notify` its subscriber gets an event that reports it, if none waits.

    Raises:
        CallError: there is none, or the account may not.

    """
    node = await found(call, name)
    await call.ask(Purge(call.by, node.name, says_so=notify), name)


async def seek(call: Call, name: str, since: Millis) -> None:
    """Lead a subscription to a moment, and wait until it is there.

    Raises:
        CallError: there is none, or the account may not.

    """
    node = await found(call, name)
    await call.ask(Seek(call.by, node.name, since), name)


async def configure(call: Call, name: str, settings: Mapping[str, Value]) -> None:
    """Change settings of the queue of a subscription.

    Raises:
        CallError: there is none, or the account may not.

    """
    node = await found(call, name)
    await call.ask(Configure(call.by, node.name, Settings(settings)), name)


async def detach(call: Call, name: str) -> None:
    """End the feeding of a subscription, and remove its messages.

    Raises:
        CallError: there is none, or the account may not.

    """
    node = await found(call, name)
    labels = marks.with_mark(node.config.labels, marks.DETACHED, "1")
    await configure(call, name, {"source": "", "labels": labels})
    await truncate(call, name)


def check_attached(node: Node) -> None:
    """Refuse to pull from a subscription that has been detached.

    Raises:
        CallError: it has been.

    """
    if marks.has(node.config, marks.DETACHED):
        raise unfit("The subscription is detached from its topic.")
