"""Queues that are deleted when they have not been used for the time that their owner has set.

A queue is in use while it has subscribers, and while items are requested (`take`). Its settings keep the time of the last
request, to within a sixteenth of the span, so that a worker that polls does not write with each poll. Time counts from the first
look at a queue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.core.changes import ConfigureNode, DeleteNode
from pubqueue.core.decision import Decision, LookedThrough
from pubqueue.core.model import NodeName, later, seconds
from pubqueue.core.publishing import sources

if TYPE_CHECKING:
    from pubqueue.core.changes import Change
    from pubqueue.core.model import Millis, Node
    from pubqueue.core.nodes.references import Others

SLICE: Final = 200
"""Nodes that are looked at in one step."""

PARTS: Final = 16
"""The number of parts of the span: the last use is known to within one part."""


class DeleteUnused(Struct, frozen=True, gc=False):
    """Look at the next nodes after `after`, by name, and delete the queues that were not used for too long."""

    after: NodeName = NodeName("")


class UnusedFacts(Struct, frozen=True, gc=False):
    """The nodes of this step that may be deleted, each with those that feed it; and where the next step begins, empty at the end."""

    now: Millis
    queues: tuple[tuple[Node, Others], ...] = ()
    next: NodeName = NodeName("")


def is_kept_for_a_time(node: Node) -> bool:
    """Return whether the node is a queue that is deleted when it is not used."""
    return node.config.queueing and node.config.unused_expire is not None


def used(node: Node, now: Millis, wait: Millis) -> tuple[Change, ...]:
    """Return the change for a queue whose items are requested for this span from now on, if its use has to be recorded."""
    span = node.config.unused_expire
    if span is None:
        return ()
    until = later(now, wait)
    if until - node.config.used < seconds(span) // PARTS:
        return ()
    return (_noted(node, until),)


def delete_unused(_request: DeleteUnused, facts: UnusedFacts) -> Decision:
    """Delete up to one queue in a step, because one node may feed several; the next step begins after it."""
    changes: list[Change] = []
    for node, others in facts.queues:
        span = node.config.unused_expire
        if node.subscriptions or not node.config.used or span is None:
            changes += used(node, facts.now, seconds(0))
        elif node.config.used + seconds(span) <= facts.now:
            gone = DeleteNode(node.name, announce=False)
            ends = (*changes, *sources.detached(node, others), gone)
            return Decision(LookedThrough(node.name), ends, then=DeleteUnused(node.name))
    return Decision(LookedThrough(facts.next), tuple(changes))


def _noted(node: Node, moment: Millis) -> ConfigureNode:
    return ConfigureNode(node.name, replace(node.config, used=moment))
