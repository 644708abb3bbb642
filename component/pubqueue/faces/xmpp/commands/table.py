"""The table of all commands by node, in the order in which clients see them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.faces.xmpp.commands.forms import (
    connections,
    control,
    items,
    kept_messages,
    pending,
    people,
    queues,
    registrations,
    schedules,
    service,
)
from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pubqueue.faces.xmpp.commands.steps import Command

COMMANDS: Final[Mapping[str, Command]] = {
    command.node: command
    for part in (
        queues,
        control,
        items,
        people,
        pending,
        schedules,
        registrations,
        connections,
        kept_messages,
        service,
    )
    for command in part.COMMANDS
}

# fmt: off
DOES: Final[Mapping[str, str]] = {
    f"{ns.PUBSUB}#get-pending": "Sends you a form for each subscription that waits for your approval (XEP-0060 8.7).",
}
"""Descriptions of the commands that are not operations, for the documentation (`tools/reference`)."""
# fmt: on
