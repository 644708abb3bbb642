"""The queues that a plain node feeds: decided when a queue's `source` is set, and when rights to that node change.

The plain node keeps the list (`NodeConfig.feeds`), so a publish to a node that feeds no queue costs nothing for it. The
setting of the queue and the list change in one commit. A queue is fed as long as the account that has set its source may
subscribe to that node, and both nodes exist. When that ends, the setting is emptied, so that it shows the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.core.changes import ConfigureNode
from pubqueue.core.decision import Refusal, Refused
from pubqueue.core.model import Affiliation, Feed, Node, NodeConfig, NodeName, Principal
from pubqueue.core.nodes import access
from pubqueue.core.nodes.access import Action
from pubqueue.core.nodes.references import Other

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pubqueue.core.changes import Change
    from pubqueue.core.model import Jid
    from pubqueue.core.nodes.references import Others

MAX_FED: Final = 100
"""The maximum number of queues that one plain node feeds: a publish to it is one commit."""


class Feeder(Struct, frozen=True, gc=False):
    """A queue that a plain node feeds, the account that has set its source, and the account's affiliation with the plain node."""

    queue: Node | None
    feed: Feed
    by: Principal
    affiliation: Affiliation
    subscribed: bool = False


def may_feed(by: Principal, affiliation: Affiliation, topic: Node, *, subscribed: bool) -> bool:
    """Return whether the account may let the node feed a queue: it has to be allowed to subscribe there without approval."""
    standing = access.standing(by, affiliation)
    if not access.may(standing, Action.SUBSCRIBE, topic, subscribed=subscribed):
        return False
    return subscribed or not access.needs_approval(standing, topic)


def unfit(name: NodeName, before: NodeConfig, after: NodeConfig, others: Others) -> Refused | None:
    """Return the refusal if no account could set this source with these settings."""
    if after.source and not after.queueing:
        return _refuse("source: only a queue has a source")
    if after.source == before.source or not after.source:
        return None
    other = others.nodes.get(NodeName(after.source))
    topic = None if other is None else other.node
    if topic is None:
        return _refuse(f"source: there is no node {after.source!r}")
    if topic.config.queueing or topic.name == name:
        return _refuse(f"source: {after.source!r} is a queue, and only a plain node feeds queues")
    if len(topic.config.feeds) >= MAX_FED:
        return _refuse(f"source: {after.source!r} feeds {MAX_FED} queues already, and no more")
    return None


def forbidden(
    by: Principal, before: NodeConfig, after: NodeConfig, others: Others
) -> Refused | None:
    """Return the refusal if this account may not set the source."""
    other = others.nodes.get(NodeName(after.source))
    if after.source == before.source or other is None or other.node is None:
        return None
    if may_feed(by, other.affiliation, other.node, subscribed=other.subscribed):
        return None
    words = f"source: you may not subscribe to {after.source!r}"
    return Refused(Refusal.FORBIDDEN, words, setting="source")


def attached(
    by: Principal, name: NodeName, before: NodeConfig, after: NodeConfig, others: Others
) -> tuple[Change, ...]:
    """Return the changes of a queue's new settings in the plain nodes that fed it, or are to feed it."""
    if before.source == after.source:
        return ()
    changes = _without(others.nodes.get(NodeName(before.source)), name)
    there = others.nodes.get(NodeName(after.source))
    if there is not None and there.node is not None:
        feeds = (*there.node.config.feeds, Feed(name, by.account))
        changes += _configured(there.node, replace(there.node.config, feeds=feeds))
    return changes


def detached(node: Node, others: Others) -> tuple[Change, ...]:
    """Return the changes in other nodes when this one is deleted: in those that it feeds, and in those that feed it."""
    changes = _without(others.nodes.get(NodeName(node.config.source)), node.name)
    for feed in node.config.feeds:
        changes += _emptied(others.nodes.get(feed.queue))
    return changes


def reconsidered(
    topic: Node, feeders: Iterable[Feeder], becomes: Mapping[Jid, Affiliation]
) -> tuple[Change, ...]:
    """End the feeding that is no longer allowed by a plain node's settings and these new affiliations."""
    changes: list[Change] = []
    stays: list[Feed] = []
    for one in feeders:
        affiliation = becomes.get(one.feed.by, one.affiliation)
        if may_feed(one.by, affiliation, topic, subscribed=one.subscribed):
            stays.append(one.feed)
        elif one.queue is not None:
            changes += _configured(one.queue, replace(one.queue.config, source=""))
    if len(stays) < len(topic.config.feeds):
        changes += _configured(topic, replace(topic.config, feeds=tuple(stays)))
    return tuple(changes)


def inherited(
    by: Principal, queue: Node, others: Others, becomes: Mapping[Jid, Affiliation]
) -> tuple[Change, ...]:
    """Return the changes at the plain node when the account that has set a queue's source no longer owns the queue.

    The owner that has changed this becomes the account of the source, if it may subscribe to the plain node; otherwise it ends.
    """
    other = others.nodes.get(NodeName(queue.config.source))
    if other is None or (topic := other.node) is None:
        return ()
    feeds = topic.config.feeds
    mine = next((feed for feed in feeds if feed.queue == queue.name), None)
    if mine is None or becomes.get(mine.by, Affiliation.OWNER) is Affiliation.OWNER:
        return ()
    owns = by.admin or becomes.get(by.account, Affiliation.OWNER) is Affiliation.OWNER
    if not owns or not may_feed(by, other.affiliation, topic, subscribed=other.subscribed):
        return (*_without(other, queue.name), *_emptied(Other(queue)))
    after = tuple(Feed(queue.name, by.account) if feed == mine else feed for feed in feeds)
    return _configured(topic, replace(topic.config, feeds=after))


def _without(topic: Other | None, name: NodeName) -> tuple[Change, ...]:
    if topic is None or topic.node is None:
        return ()
    config = topic.node.config
    left = tuple(feed for feed in config.feeds if feed.queue != name)
    return _configured(topic.node, replace(config, feeds=left)) if left != config.feeds else ()


def _emptied(queue: Other | None) -> tuple[Change, ...]:
    if queue is None or queue.node is None:
        return ()
    return _configured(queue.node, replace(queue.node.config, source=""))


def _configured(node: Node, config: NodeConfig) -> tuple[Change, ...]:
    return (ConfigureNode(node.name, config),)


def _refuse(reason: str) -> Refused:
    return Refused(Refusal.INVALID_CONFIG, reason, setting="source")
