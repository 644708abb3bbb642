"""A plain node, and the queue that it feeds: what is published to the one has to be in the other. And a queue with the node of its dead letters."""

from __future__ import annotations

from typing import Final

from harness.batches.facts import BOSS, who

from pubqueue.model.entities import Jid, NodeName
from pubqueue.rules.declare import Declare
from pubqueue.rules.nodeconfig import Settings

NEWS: Final = NodeName("news")
DIGEST: Final = NodeName("digest")
ORDERS, LOST = NodeName("orders"), NodeName("lost")


def queue_of(node: NodeName) -> NodeName:
    """Return the queue that has what is published to the node."""
    return DIGEST if node == NEWS else node


def kept_for(node: NodeName) -> NodeName:
    """Return the queue whose dead items the node keeps; of another node, the node."""
    return ORDERS if node == LOST else node


def a_topic() -> Declare:
    """Declare the plain node: everybody may publish to it."""
    settings = Settings({"access_model": "open", "publish_model": "open", "event_log": True})
    return Declare(who(BOSS, admin=True), NEWS, settings, (Jid("boss@x"),))
