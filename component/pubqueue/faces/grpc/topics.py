"""Topics for both bindings, pages of them, and data of a binding that is stored with a node."""

from __future__ import annotations

import asyncio
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from pubqueue.faces.grpc.statuses import invalid
from pubqueue.faces.grpc.wire import BRIDGE, ResourceKind, draft_of, is_bridged, name_of, project_of
from pubqueue.model.decision import Published, Refused
from pubqueue.model.entities import NodeName
from pubqueue.model.replies import Described, Listed, Page
from pubqueue.rules.discovery import Describe, ListNodes
from pubqueue.rules.nodeconfig import MAX_PAYLOAD_BYTES, OWN, Labels, Settings, all_of
from pubqueue.rules.nodes import Configure, Create, Delete
from pubqueue.rules.publication import Publish

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pubqueue.faces.grpc.calls import Call
    from pubqueue.faces.grpc.wire import StoredMessage
    from pubqueue.model.entities import Draft, ItemId, Node, NodeConfig
    from pubqueue.rules.nodeconfig import Value


T = TypeVar("T")

# Pages of topics and of subscriptions, for both bindings: by name, and only those that the account may know of.

USUAL: Final = 100
MAX_PAGE: Final = 1_000
"""Entries of a page for which no size is given, and of the largest."""

SCANNED: Final = 20
"""Pages of names that are read for one page of entries; then the page has fewer, or none, and there is a next one."""

NAMED: Final = "projects/"
"""The prefixes of nodes with names in the form of Pub/Sub."""


class Found(msgspec.Struct):
    """A page: nodes, and the token of the next page, empty at the end."""

    nodes: list[Node]
    token: str = ""


class _Token(msgspec.Struct, array_like=True):
    """Where a page begins, and the list that it belongs to."""

    list: str
    after: str


_TOKEN: Final = msgspec.msgpack.Decoder(_Token)


def _list(kind: ResourceKind, project: str | None, topic: str | None) -> str:
    return f"{kind.value} {project or '*'} {topic or '*'}"


async def page(
    call: Call,
    kind: ResourceKind,
    project: str | None,
    size: int,
    token: str,
    *,
    topic: str | None = None,
) -> Found:
    """Return a page of the topics or subscriptions of a project, or of all projects; or of the subscriptions of a topic.

    Raises:
        CallError: the token is of another list, or the topic does not exist.

    """
    room = USUAL if size <= 0 else min(size, MAX_PAGE)
    what = _list(kind, project, topic)
    after = _after(token, what)
    if project is not None and not call.may_use(project):
        return Found([])
    if topic is not None:
        return await _fed(call, topic, project, room, after, what)
    start = f"{NAMED}{project}/{kind.value}/" if project and project != BRIDGE else ""
    return await _scan(call, kind, project, start, room, after, what)


async def _scan(  # noqa: PLR0917  # a list, and a page of it
    call: Call,
    kind: ResourceKind,
    project: str | None,
    start: str,
    room: int,
    after: str,
    what: str,
) -> Found:
    """Return the next entries among the nodes that the account may know of and whose names begin with `start`."""
    found: list[Node] = []
    place = after
    for _ in range(SCANNED):
        part = Page(after=place or None, most=room + 1)
        reply = await call.ask(ListNodes(call.by, part, prefix=start))
        assert isinstance(reply, Listed)
        for name, _title in reply.entries:
            if len(found) == room:
                return Found(found, _written(what, place))
            place = name
            if (node := await _entry(call, NodeName(name), kind, project)) is not None:
                found.append(node)
        if not reply.part.more:
            return Found(found)
    return Found(found, _written(what, place))


async def _entry(
    call: Call, node: NodeName, kind: ResourceKind, project: str | None
) -> Node | None:
    """Return a node if it belongs in the list, and still exists."""
    name = name_of(node, kind)
    other = ResourceKind.TOPIC if kind is ResourceKind.SUBSCRIPTION else ResourceKind.SUBSCRIPTION
    if is_bridged(name) and not is_bridged(name_of(node, other)):
        return None  # it has a name of its own as the other kind
    if project is not None and project_of(name) != project:
        return None
    if not call.may_use(project_of(name)):
        return None
    reply = await call.backend.broker.handle_for(
        call.by, Describe(call.by, node, manage=False, known=True)
    )
    if not isinstance(reply, Described):
        return None
    is_queue = reply.node.config.queueing
    if kind is ResourceKind.SUBSCRIPTION or is_bridged(name):
        return reply.node if is_queue is (kind is ResourceKind.SUBSCRIPTION) else None
    return reply.node


async def _fed(  # noqa: PLR0917  # a list, and a page of it
    call: Call, topic: str, project: str | None, room: int, after: str, what: str
) -> Found:
    """Return the next subscriptions of a topic."""
    source = await found_topic(call, topic)
    queues = sorted(feed.queue for feed in source.config.feeds if feed.queue > after)
    found: list[Node] = []
    for queue in queues:
        if len(found) == room:
            return Found(found, _written(what, found[-1].name))
        name = name_of(queue, ResourceKind.SUBSCRIPTION)
        if (project is not None and project_of(name) != project) or not call.may_use(
            project_of(name)
        ):
            continue
        reply = await call.backend.broker.handle_for(
            call.by, Describe(call.by, queue, manage=False, known=True)
        )
        if isinstance(reply, Described):
            found.append(reply.node)
        else:
            assert isinstance(reply, Refused)
    return Found(found)


def _written(what: str, after: str) -> str:
    return urlsafe_b64encode(msgspec.msgpack.encode(_Token(what, after))).decode().rstrip("=")


def _after(token: str, what: str) -> str:
    if not token:
        return ""
    try:
        data = urlsafe_b64decode(token.encode("ascii") + b"=" * (-len(token) % 4))
        read = _TOKEN.decode(data)
    except (NotBase64, ValueError, msgspec.MsgspecError):
        raise invalid("page_token is not one of this service") from None
    if token != _written(read.list, read.after):
        raise invalid("page_token is not one of this service")
    if read.list != what:
        raise invalid("page_token is of another list")
    return read.after


# Data of a binding that is stored with a node in one setting: labels of users, and marks of the service's own. Pure.

Fields = dict[str, "Value | Mapping[str, str]"]
"""Settings by name, and marks. `labels` are those of users."""

EXACTLY_ONCE: Final = f"{OWN}exactly-once"
"""Whether acknowledgements are refused once the lock is over."""

DETACHED: Final = f"{OWN}detached"
"""Whether the subscription has been detached from its topic."""


def of_users(config: NodeConfig) -> dict[str, str]:
    """Return the labels without the marks."""
    found = all_of(config.labels)
    return {name: value for name, value in found.items() if not name.startswith(OWN)}


def has(config: NodeConfig, mark: str) -> bool:
    """Return whether the node has the mark."""
    return bool(config.labels) and mark in all_of(config.labels)


def settings_of(fields: Mapping[str, Value | Mapping[str, str]]) -> Settings:
    """Return the settings of a node with the labels and marks among them: what is not named stays as it is in the node."""
    values: dict[str, Value] = {}
    labels: dict[str, str | None] = {}
    for name, value in fields.items():
        if isinstance(value, Mapping):
            labels |= value
        elif name.startswith(OWN):
            labels[name] = None if value is None else str(value)
        else:
            values[name] = value
    instead = "labels" in fields
    return Settings(values, labels=Labels(labels, instead) if labels or instead else None)


# Topics, for both bindings: plain nodes that publishers publish to, and that feed subscriptions.

MAX_MESSAGES: Final = 1_000
"""Messages of one publish."""

ON_LOOP: Final = 65_536
"""Bytes of a request whose messages are converted beside the others; those of larger ones are in a thread."""

MAX_PUBLISH_BYTES: Final = 10_000_000
"""Bytes of one publish."""

SETTINGS: Final[Mapping[str, Value]] = {
    "persist_items": "0",
    "publish_model": "publishers",
    "access_model": "whitelist",
    "max_payload_size": MAX_PAYLOAD_BYTES,
}
"""Settings of the node of a new topic."""


async def create(call: Call, name: str, more: Fields | None = None) -> None:
    """Create a topic.

    Raises:
        CallError: it exists, or the account may not.

    """
    node = call.node(name, ResourceKind.TOPIC, creates=True)
    await call.ask(Create(call.by, node, settings_of({**SETTINGS, **(more or {})})), name)


async def found_topic(call: Call, name: str, field: str = "topic") -> Node:
    """Return the node of a topic.

    Raises:
        CallError: there is none that the account may know of.

    """
    node = call.node(name, ResourceKind.TOPIC, field)
    reply = await call.ask(Describe(call.by, node, manage=False, known=True), name)
    assert isinstance(reply, Described)
    return reply.node


async def publish(
    call: Call, name: str, given: Callable[[], Sequence[StoredMessage]], size: int
) -> list[str]:
    """Publish the messages that `given` reads, all or none, and return their ids. `size` is the bytes of the request.

    Raises:
        CallError: a message does not fit, or the topic is not there.

    """
    node = call.node(name, ResourceKind.TOPIC, "topic")
    if size > MAX_PUBLISH_BYTES:
        raise invalid(f"The value for request_size is too large: at most {MAX_PUBLISH_BYTES} bytes")
    published = await _beside(size, given)
    del given
    if not published:
        raise invalid("messages is empty: at least one message is required")
    if len(published) > MAX_MESSAGES:
        raise invalid(f"The value for message_count is too large: at most {MAX_MESSAGES} messages")
    ids = call.backend.new_ids(len(published))
    drafts = await _beside(size, partial(_drafts_of, published, ids))
    del published  # the data may be large, and the drafts have it as it is stored
    reply = await call.ask(Publish(call.by, node, drafts), name, size)
    assert isinstance(reply, Published)
    return list(reply.ids)


async def _beside(size: int, convert: Callable[[], T]) -> T:
    """Return what is converted of so many bytes: in a thread if they are many."""
    return convert() if size < ON_LOOP else await asyncio.to_thread(convert)


def _drafts_of(published: Sequence[StoredMessage], ids: Sequence[ItemId]) -> tuple[Draft, ...]:
    return tuple(draft_of(one, own) for one, own in zip(published, ids, strict=True))


async def delete(call: Call, name: str, *, with_subscriptions: bool) -> None:
    """Delete a topic with its subscriptions, or leave these with their messages.

    Raises:
        CallError: there is none, or the account may not.

    """
    node = await found_topic(call, name)
    await call.ask(Delete(call.by, node.name, with_fed=with_subscriptions), name)


async def configure(call: Call, name: str, fields: Fields) -> None:
    """Change settings of the node of a topic.

    Raises:
        CallError: there is none, or the account may not.

    """
    node = call.node(name, ResourceKind.TOPIC, "topic")
    await call.ask(Configure(call.by, node, settings_of(fields)), name)
