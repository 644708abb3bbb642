"""A plain node, and the queue that it feeds: what is published to the one has to be in the other."""

from __future__ import annotations

from typing import Final

from harness.batches.facts import BOSS, who

from pubqueue.model.entities import Jid, NodeName
from pubqueue.rules.declare import Declare
from pubqueue.rules.nodeconfig import Settings

NEWS: Final = NodeName("news")
DIGEST: Final = NodeName("digest")


def queue_of(node: NodeName) -> NodeName:
    """Return the queue that has what is published to the node."""
    return DIGEST if node == NEWS else node


def a_topic() -> Declare:
    """Declare the plain node: everybody may publish to it."""
    settings = Settings({"access_model": "open", "publish_model": "open", "event_log": True})
    return Declare(who(BOSS, admin=True), NEWS, settings, (Jid("boss@x"),))
