"""Facts about the connections of clients, which this process has in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.rules.inspect import ConnectionsFacts, EndFacts

if TYPE_CHECKING:
    from pubqueue.app.facts.context import Context
    from pubqueue.rules.inspect import EndConnection, ReadConnections

MAX_CONNECTIONS: Final = 100
"""Connections of one page."""


def for_connections(context: Context, request: ReadConnections) -> ConnectionsFacts:
    """Return the next connections; none if the principal may not see them."""
    if not request.by.admin:
        return ConnectionsFacts(context.now)
    most = min(request.most or MAX_CONNECTIONS, MAX_CONNECTIONS)
    found, total = context.clients(request, most + 1, context.now)
    return ConnectionsFacts(context.now, found[:most], total, len(found) > most)


def for_end(context: Context, request: EndConnection) -> EndFacts:
    """Return whether the connection is here."""
    return EndFacts(request.by.admin and context.is_connected(request.address))
