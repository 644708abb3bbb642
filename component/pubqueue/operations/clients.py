"""Operations on those who use the queue: connections, registrations of pushes, kept messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.model.entities import Jid, NodeName
from pubqueue.model.replies import Power
from pubqueue.operations.model import (
    AFTER,
    MAX_ROWS,
    NODE,
    Answer,
    Cell,
    Column,
    Offer,
    Operation,
    Parameter,
    ParameterKind,
    count,
)
from pubqueue.operations.searching import answered, searched, searches
from pubqueue.rules.inspect import EndConnection, ReadConnections
from pubqueue.rules.messages import DropMessages, ListMessages
from pubqueue.rules.registrations import Enable, ListRegistrations, Unregister

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pubqueue.model.decision import Request
    from pubqueue.model.entities import Principal
    from pubqueue.model.records import KeptMessages, MessagesEnded, Registration, Registrations
    from pubqueue.model.replies import ClientState, ConnectionEnded, ConnectionPage
    from pubqueue.operations.model import Given, Row


# Operations on registrations: URLs that the items of a node are pushed to.

USUAL: Final = 100
"""Rows of a page, unless the caller wants fewer or more."""

ACTIVE: Final = "active"
DISABLED: Final = "disabled"

OF_NODE: Final = Parameter(
    *("node", ParameterKind.NODE, "Only of this node"), help="Only registrations of this node."
)
OF_REGISTRATIONS: Final = "their names, nodes or accounts"
NAME: Final = Parameter("registration", ParameterKind.TEXT, "Registration", required=True)


def _read_registrations(by: Principal, given: Given, after: str) -> ListRegistrations:
    node = given.one("node")
    return ListRegistrations(
        by, NodeName(node) if node else None, after, given.number("max") or USUAL
    )


def _registrations(page: Registrations, _given: Given) -> Answer:
    rows = tuple(_registration(one) for one in page.entries if not one.is_pulled)
    note = count(len(rows), "registration")
    note = f"These are {note}; there are more." if page.more else f"{note}."
    return Answer(note, rows, page.entries[-1].name if rows else "", more=page.more)


def _registration(one: Registration) -> Row:
    state = DISABLED if one.disabled else ACTIVE
    return one.name, one.node, one.account, state, one.failures, one.error


REGISTRATIONS: Final = Operation(
    "registrations",
    "List the registrations of pushes",
    "Registrations are URLs that the items of a node are pushed to. Lists those of a node that you own, or your own; for an administrator, all. A registration is disabled"
    " after too many failures in a row.",
    Power.NODES,
    (OF_NODE, *searches(ListRegistrations, OF_REGISTRATIONS, reason=True), AFTER, MAX_ROWS),
    (
        Column("registration", "Registration"),
        Column("node", "Node"),
        Column("account", "Account"),
        Column("state", "State"),
        Column("failures", "Failures in a row", Cell.COUNT),
        Column("error", "Last error"),
    ),
    searched(_read_registrations),
    answered(_registrations),
    place="registration",
    command="registration list",
    manual="List registrations.\n\n"
    "Shows for each its node, its account, whether it is active, and how many pushes in a row have failed. Owners see those of their nodes"
    " (--node), others their own, and administrators all.",
)

_NUMBER: Final = (Column("count", "Registrations", Cell.COUNT),)


def _changing(name: str, label: str, about: str, *, disabled: bool, manual: str) -> Operation:
    """Return an operation that disables a registration, or enables it."""
    done = "is disabled; its items go to other workers" if disabled else "is active"

    def ask(by: Principal, given: Given) -> Request:
        node = NodeName(given.one("node"))
        return Enable(by, node, given.one("registration"), disabled=disabled)

    def answer(_page: Registrations, given: Given) -> Answer:
        return Answer(f"The registration {given.one('registration')} {done}.", ((1,),))

    return Operation(
        name,
        label,
        about,
        Power.NODES,
        (NODE, NAME),
        _NUMBER,
        ask,
        answer,
        single=True,
        changes=True,
        command=name.replace("-", " "),
        manual=manual,
    )


DISABLE: Final = _changing(
    "registration-disable",
    "Disable a registration",
    "Nothing more is pushed to its URL until it is enabled again. Items that are being pushed are requeued within 2 s, without a failure.",
    disabled=True,
    manual="Stop pushing to the URL, until the registration is enabled again.",
)
ENABLE: Final = _changing(
    "registration-enable",
    "Enable a registration",
    "Pushes begin again, with no failure so far.",
    disabled=False,
    manual="Push to the URL again, after the registration was disabled.",
)


END: Final = Operation(
    "registration-end",
    "End a registration",
    "Nothing more is pushed to its URL. Its account may register again.",
    Power.NODES,
    (NODE, NAME),
    _NUMBER,
    lambda by, given: Unregister(by, NodeName(given.one("node")), given.one("registration")),
    lambda _page, given: Answer(
        f"The registration {given.one('registration')} has ended.", ((1,),)
    ),
    single=True,
    changes=True,
    takes_away=True,
    command="registration end",
    manual="End a registration. Its account may register again.",
)

ON_REGISTRATIONS: Final = (REGISTRATIONS, DISABLE, ENABLE, END)


# Operations on the connections of clients to the service itself, for every protocol.

ACCOUNT: Final = Parameter(
    *("account", ParameterKind.JID, "Only of this account"),
    help="Only connections of this account.",
    metavar="JID",
)

SUBSCRIBED: Final = Parameter(
    *("subscribed", ParameterKind.TEXT, "Only those subscribed to this node"),
    option="--node",
    help="Only connections subscribed to this node.",
)


def _read_connections(by: Principal, given: Given, after: str) -> ReadConnections:
    account, node = given.one("account"), given.one("subscribed")
    return ReadConnections(
        by,
        Jid(account) if account else None,
        Jid(after) if after else None,
        given.number("max"),
        NodeName(node) if node else None,
    )


def _connections(page: ConnectionPage, _given: Given) -> Answer:
    rows = tuple(map(_connection, page.clients))
    note = f"{count(page.total, 'connection')} to this instance."
    note += f" These are the next {len(rows)}; there are more." if page.more else ""
    through = page.clients[-1].address if rows else ""
    return Answer(note, rows, through, more=page.more and bool(rows), now=page.now)


def _connection(one: ClientState) -> Row:
    times = one.since, one.since
    has = one.subscriptions, one.nodes, one.holds, one.quiet
    return one.address, one.face, one.peer, *times, one.private, *has


CONNECTIONS: Final = Operation(
    "connections",
    "List the connections of clients",
    "The clients that are connected to this instance itself, as STOMP clients and streams of gRPC are: who, from where, since when, to which nodes, and what"
    " each holds. Each instance has its own.",
    Power.SERVICE,
    (ACCOUNT, SUBSCRIBED, *searches(ReadConnections, "their addresses"), AFTER, MAX_ROWS),
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
        Column("quiet", "Quiet", Cell.FLAG),
    ),
    searched(_read_connections),
    answered(_connections),
    place="address",
    manual="List the clients connected to the service.\n\n"
    "Shows for each who it is, from where and since when it is connected, its nodes, and how many items it holds. Each stream of gRPC is a"
    " line of its own. XMPP clients are connected to their servers, so they are not listed. With several instances, the one that answers"
    " lists its own. Only administrators may use this command.",
)


def _holders(page: ConnectionPage) -> Iterator[tuple[str, str]]:
    for one in page.clients:
        yield one.address, f"{one.address} from {one.peer} (holds {count(one.holds, 'item')})"


def _connection_ended(reply: ConnectionEnded, _given: Given) -> Answer:
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
    (
        Parameter(
            *("connection", ParameterKind.JID, "Connection"),
            required=True,
            offer=Offer(
                *(CONNECTIONS, _holders, "No client is connected to this instance."),
                "Or the address of another connection",
            ),
        ),
    ),
    (Column("count", "Connections ended", Cell.COUNT),),
    lambda by, given: EndConnection(by, Jid(given.one("connection"))),
    _connection_ended,
    single=True,
    changes=True,
    takes_away=True,
    manual="End the connection of a client.\n\n"
    "Name it as `pubqueue connections` does. The items that it holds are released, and no failure is counted. The client may connect"
    " again, unless you remove its user. Only administrators may use this command.",
)

ON_CONNECTIONS: Final = (CONNECTIONS, END_CONNECTION)


# Operations on messages of assured service that are held until their senders ask for the delivery.


def _read_messages(by: Principal, given: Given, after: str) -> ListMessages:
    return ListMessages(by, after, given.number("max") or USUAL)


def _messages(page: KeptMessages, _given: Given) -> Answer:
    rows = tuple((one.account, one.messages, one.byte_count, one.until) for one in page.accounts)
    held = f"{count(page.messages, 'message')} with {count(page.byte_count, 'byte')}"
    note = f"{held} held, {count(page.remembered, 'answer')} remembered."
    return Answer(note, rows, page.accounts[-1].account if rows else "", more=page.more)


KEPT: Final = Operation(
    "kept-messages",
    "List the accounts of which messages are held",
    "Assured messages are held from when they are received until their sender asks for the delivery. Lists the accounts that have any.",
    Power.SERVICE,
    (*searches(ListMessages, "their addresses"), AFTER, MAX_ROWS),
    (
        Column("account", "Account"),
        Column("messages", "Messages", Cell.COUNT),
        Column("bytes", "Bytes", Cell.COUNT),
        Column("until", "First held until", Cell.MOMENT),
    ),
    searched(_read_messages),
    answered(_messages),
    place="account",
    command="messages list",
    manual="List the accounts of which messages are held.\n\n"
    "Shows for each how many messages and bytes are held, and until when the first of them is. Only administrators may use this command.",
)


def _senders(page: KeptMessages) -> Iterator[tuple[str, str]]:
    for one in page.accounts:
        yield one.account, f"{one.account} ({count(one.messages, 'message')})"


def _dropped(reply: MessagesEnded, given: Given) -> Answer:
    note = f"{count(reply.count, 'message')} of {given.one('account')} dropped."
    return Answer(note, ((reply.count,),))


DROP: Final = Operation(
    "drop-kept-messages",
    "Drop the messages that are held of an account",
    "The messages that were received and not delivered are gone. Their sender gets an error when it asks for the delivery.",
    Power.SERVICE,
    (
        Parameter(
            *("account", ParameterKind.JID, "Account"),
            required=True,
            offer=Offer(KEPT, _senders, "No messages are held.", "Or another account"),
        ),
    ),
    (Column("count", "Messages dropped", Cell.COUNT),),
    lambda by, given: DropMessages(by, Jid(given.one("account"))),
    _dropped,
    single=True,
    changes=True,
    takes_away=True,
    command="messages drop",
    manual="Drop the messages that are held of an account.\n\n"
    "They were received and not delivered. Their sender gets an error when it asks for the delivery. Only administrators may use this"
    " command.",
)

ON_MESSAGES: Final = (KEPT, DROP)
