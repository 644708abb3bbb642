"""An address can or can no longer be reached: its queues check again which subscribers their items can go to.

Nothing of this is stored: only the process that has the connection knows it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from pubqueue.core.decision import Decision, Done
from pubqueue.core.nodes.subscriptions.changes import Recount

if TYPE_CHECKING:
    from pubqueue.core.model import Jid, Subscription


class ReachChanged(Struct, frozen=True, gc=False):
    """A connection has room again, or has none for now."""

    jid: Jid


class ReachFacts(Struct, frozen=True, gc=False):
    """The subscriptions of exactly this address."""

    subscriptions: tuple[Subscription, ...]


def reach_changed(_request: ReachChanged, facts: ReachFacts) -> Decision:
    """Count the windows of the address again."""
    return Decision(Done(), tuple(Recount(one.node, one.jid) for one in facts.subscriptions))
