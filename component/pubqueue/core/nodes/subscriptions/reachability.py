"""Whether an address can be reached has changed: the queues it works in look again for whom their items can go to.

Nothing is stored of that: it is known to the process that has the connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from pubqueue.core.changes import Recount
from pubqueue.core.decision import Decision, Done

if TYPE_CHECKING:
    from pubqueue.core.model import Jid, Subscription


class ReachChanged(Struct, frozen=True, gc=False):
    """A connection takes more again, or takes no more for now."""

    jid: Jid


class ReachFacts(Struct, frozen=True, gc=False):
    """The subscriptions of exactly this address."""

    subscriptions: tuple[Subscription, ...]


def reach_changed(_request: ReachChanged, facts: ReachFacts) -> Decision:
    """Count the windows of the address again."""
    return Decision(Done(), tuple(Recount(one.node, one.jid) for one in facts.subscriptions))
