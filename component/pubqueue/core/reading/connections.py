"""The connections of clients to the service itself: an administrator lists them, and ends one.

They are those of one process: connections are not rows, and another process has its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from pubqueue.core.decision import Decision, Refusal, refuse
from pubqueue.core.reading.inspect import FOR
from pubqueue.core.reading.summaries import ConnectionEnded, ConnectionPage, Power

if TYPE_CHECKING:
    from pubqueue.core.model import Jid, Millis, NodeName, Principal
    from pubqueue.core.reading.summaries import ClientState


class ReadConnections(Struct, frozen=True, gc=False):
    """Request up to `most` connections of clients, of one account, or of those subscribed to a node, by address after `after`."""

    by: Principal
    account: Jid | None = None
    after: Jid | None = None
    most: int | None = None
    node: NodeName | None = None


class ConnectionsFacts(Struct, frozen=True, gc=False):
    """The next connections, and how many there are in total; `more` follow."""

    now: Millis
    clients: tuple[ClientState, ...] = ()
    total: int = 0
    more: bool = False


class EndConnection(Struct, frozen=True, gc=False):
    """End the connection of this address: its items are released, without a failure."""

    by: Principal
    address: Jid


class EndFacts(Struct, frozen=True, gc=False):
    """Whether this process has the connection."""

    is_here: bool


def read_connections(request: ReadConnections, facts: ConnectionsFacts) -> Decision:
    """Return the connections, for administrators of the service."""
    if not request.by.admin:
        return refuse(Refusal.FORBIDDEN, FOR[Power.SERVICE])
    return Decision(ConnectionPage(facts.clients, facts.total, facts.now, facts.more))


def end_connection(request: EndConnection, facts: EndFacts) -> Decision:
    """Decide whether the connection ends; its process ends it after the commit, and then its locks are released."""
    if not request.by.admin:
        return refuse(Refusal.FORBIDDEN, FOR[Power.SERVICE])
    return Decision(ConnectionEnded(request.address, facts.is_here))
