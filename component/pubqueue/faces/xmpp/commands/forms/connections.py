"""Connections of clients to the service itself: list them, and end one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.faces.xmpp.commands.operation_forms import OTHER, doing
from pubqueue.faces.xmpp.commands.steps import CommandStep, Field, Form, Result, of
from pubqueue.operations.clients import CONNECTIONS, END_CONNECTION
from pubqueue.operations.model import count
from pubqueue.rules.inspect import ReadConnections

if TYPE_CHECKING:
    from pubqueue.faces.xmpp.commands.steps import Shown
    from pubqueue.model.decision import Request
    from pubqueue.model.entities import Principal
    from pubqueue.model.replies import ClientState, ConnectionPage
    from pubqueue.operations.model import Given


def _ask(by: Principal, _given: Given) -> Request:
    return ReadConnections(by)


def _choose(page: ConnectionPage, _given: Given) -> Shown:
    if not page.clients:
        return Result("No client is connected to this instance.")
    options = tuple((one.address, _about(one)) for one in page.clients)
    connection = END_CONNECTION.parameter("connection")
    fields = (
        Field(connection.name, "list-single", connection.label, options[0][:1], options),
        Field(OTHER + connection.name, "text-single", "Or the address of another connection"),
    )
    return Form(END_CONNECTION.label, END_CONNECTION.about, fields)


def _about(one: ClientState) -> str:
    return f"{one.address} from {one.peer} (holds {count(one.holds, 'item')})"


COMMANDS: Final = (
    of(CONNECTIONS, doing(CONNECTIONS)),
    of(END_CONNECTION, CommandStep(_ask, _choose), doing(END_CONNECTION)),
)
