"""Reads steps of commands (XEP-0050), and discovery requests for commands or nodes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pubqueue.faces.xmpp.commands import discovery
from pubqueue.faces.xmpp.commands.table import COMMANDS
from pubqueue.faces.xmpp.parse import retrieving
from pubqueue.faces.xmpp.parse.iq import Asked
from pubqueue.faces.xmpp.refusals import NO_SUCH_COMMAND
from pubqueue.rules.inspect import AskPowers
from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    from pubqueue.engine.table import Request
    from pubqueue.faces.xmpp.parse.iq import Iq
    from pubqueue.faces.xmpp.refusals import StanzaError
    from pubqueue.model.decision import Refused


def step(iq: Iq) -> Asked | StanzaError | bytes:
    """Read a step of a command (XEP-0050 2.4)."""
    return NO_SUCH_COMMAND if iq.command_handler is None else iq.command_handler.take(iq)


def disco_info(iq: Iq) -> Request | Asked | StanzaError | bytes:
    """Read a disco#info request: for the list of commands or a command that the account may see (XEP-0050 2.2), or for a node or the service."""
    node = iq.child.get("node")
    if node == ns.COMMANDS:
        return discovery.list_info().encode()
    if node is not None and (command := COMMANDS.get(node)) is not None:
        request = AskPowers(iq.by, command.power)
        return Asked(request, partial(discovery.command_info, command), _nothing_instead)
    return retrieving.disco_info(iq)


def disco_items(iq: Iq) -> Request | Asked | StanzaError:
    """Read a disco#items request: for the principal's commands (XEP-0050 2.2), a command, which has no items, or for nodes or a node's items."""
    node = iq.child.get("node")
    if node == ns.COMMANDS:
        return Asked(AskPowers(iq.by), discovery.items, _nothing_instead)
    if node is not None and (command := COMMANDS.get(node)) is not None:
        request = AskPowers(iq.by, command.power)
        return Asked(request, partial(discovery.no_items, command), _nothing_instead)
    return retrieving.disco_items(iq)


def _nothing_instead(_refused: Refused) -> bytes | None:
    return None
