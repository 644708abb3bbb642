"""Operations on the connections of clients to the service itself, for every protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.app.management.cells import Cell
from pubqueue.app.management.model import (
    AFTER,
    MAX_ROWS,
    Answer,
    Column,
    Operation,
    Parameter,
    ParameterKind,
)
from pubqueue.app.management.words import count
from pubqueue.model.entities import Jid, NodeName
from pubqueue.model.replies import Power
from pubqueue.rules.inspect import EndConnection, ReadConnections

if TYPE_CHECKING:
    from pubqueue.app.management.given import Given
    from pubqueue.app.management.model import Row
    from pubqueue.app.rules import Request
    from pubqueue.model.entities import Principal
    from pubqueue.model.replies import ClientState, ConnectionEnded, ConnectionPage

ACCOUNT: Final = Parameter("account", ParameterKind.JID, "Only of this account")

SUBSCRIBED: Final = Parameter(
    "subscribed", ParameterKind.TEXT, "Only those subscribed to this node"
)


def _ask(by: Principal, given: Given) -> Request:
    account, after, most = given.one("account"), given.one("after"), given.one("max")
    node = given.one("subscribed")
    return ReadConnections(
        by,
        Jid(account) if account else None,
        Jid(after) if after else None,
        int(most) if most else None,
        NodeName(node) if node else None,
    )


def _connections(page: ConnectionPage, _given: Given) -> Answer:
    rows = tuple(map(_row, page.clients))
    note = f"{count(page.total, 'connection')} to this instance."
    note += f" These are the next {len(rows)}; there are more." if page.more else ""
    through = page.clients[-1].address if rows else ""
    return Answer(note, rows, through, more=page.more and bool(rows), now=page.now)


def _row(one: ClientState) -> Row:
    times = one.since, one.since
    has = one.subscriptions, one.nodes, one.holds
    return one.address, one.face, one.peer, *times, one.private, *has


CONNECTIONS: Final = Operation(
    "connections",
    "List the connections of clients",
    "The clients that are connected to this instance itself, as STOMP clients and streams of gRPC are: who, from where, since when, to which nodes, and what"
    " each holds. Each instance has its own.",
    Power.SERVICE,
    (ACCOUNT, SUBSCRIBED, AFTER, MAX_ROWS),
    (
        Column("address", "Connection"),
        Column("protocol", "Protocol"),
        Column("peer", "From"),
        Column("connected", "Connected for", Cell.SINCE),
        Column("since", "Connected at", Cell.MOMENT, more=True),
        Column("tls", "TLS", Cell.FLAG),
        Column("subscriptions", "Subscriptions", Cell.COUNT),
        Column("nodes", "Nodes", Cell.NAMES),
        Column("holds", "Holds", Cell.COUNT),
    ),
    _ask,
    _connections,
    place="address",
)


def _ask_end(by: Principal, given: Given) -> Request:
    return EndConnection(by, Jid(given.one("connection")))


def _ended(reply: ConnectionEnded, _given: Given) -> Answer:
    if not reply.is_here:
        note = f"This instance has no connection {reply.address}."
        return Answer(note, ((0,),), warns=True)
    note = f"The connection {reply.address} has ended; what it held is released."
    return Answer(note, ((1,),))


END_CONNECTION: Final = Operation(
    "end-connection",
    "End a client's connection",
    "What the client holds is released, which is no failure. It may connect again, unless you also remove its user.",
    Power.SERVICE,
    (Parameter("connection", ParameterKind.JID, "Connection", required=True),),
    (Column("count", "Connections ended", Cell.COUNT),),
    _ask_end,
    _ended,
    single=True,
    changes=True,
)

OPERATIONS: Final = (CONNECTIONS, END_CONNECTION)
