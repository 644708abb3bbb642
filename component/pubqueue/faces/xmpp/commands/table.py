"""All commands: one table, by their nodes, in the order in which they are offered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.faces.xmpp import ns
from pubqueue.faces.xmpp.commands import control, items, people, queues, service
from pubqueue.faces.xmpp.refusals import unsupported

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pubqueue.faces.xmpp.commands.stages import Command
    from pubqueue.faces.xmpp.refusals import StanzaError

COMMANDS: Final[Mapping[str, Command]] = {
    command.node: command
    for part in (queues, control, items, people, service)
    for command in part.COMMANDS
}

UNSUPPORTED: Final[Mapping[str, StanzaError]] = {
    f"{ns.PUBSUB}#get-pending": unsupported("get-pending"),  # XEP-0060 8.7.3
}
"""Commands that others know, and which are declined by name."""
