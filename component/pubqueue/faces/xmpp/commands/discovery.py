"""Service discovery of commands (XEP-0050 2.2): an account sees only the commands that it may execute."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pubqueue.faces.xmpp.commands.table import COMMANDS
from pubqueue.faces.xmpp.xml.text import attribute
from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    from pubqueue.faces.xmpp.commands.command_steps import Command
    from pubqueue.model.replies import Powers

LABEL = "Manage queues"


def _info(node: str, kind: str, label: str, *features: str) -> str:
    identity = f'<identity category="automation" type="{kind}" name="{attribute(label)}"/>'
    each = "".join(f'<feature var="{feature}"/>' for feature in (ns.COMMANDS, *features))
    return f'<query xmlns="{ns.DISCO_INFO}" node="{attribute(node)}">{identity}{each}</query>'


def list_info() -> str:
    """Return the disco#info of the node that lists the commands."""
    return _info(ns.COMMANDS, "command-list", LABEL)


def command_info(command: Command, _powers: Powers, _service: str) -> bytes:
    """Return the disco#info of one command."""
    return _info(command.node, "command-node", command.label, ns.DATA).encode()


def items(powers: Powers, service: str) -> bytes:
    """Return the commands that an account with these powers may execute."""
    jid = attribute(service)
    entries = "".join(
        f'<item jid="{jid}" node="{attribute(command.node)}" name="{attribute(command.label)}"/>'
        for command in COMMANDS.values()
        if command.power in powers.held
    )
    return f'<query xmlns="{ns.DISCO_ITEMS}" node="{ns.COMMANDS}">{entries}</query>'.encode()


def no_items(command: Command, _powers: Powers, _service: str) -> bytes:
    """Return an empty list: commands have no items."""
    return f'<query xmlns="{ns.DISCO_ITEMS}" node="{attribute(command.node)}"/>'.encode()
