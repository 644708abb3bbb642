"""All commands: one table, by their nodes, in the order in which they are offered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.faces.xmpp import ns
from pubqueue.faces.xmpp.commands import (
    control,
    items,
    pending,
    people,
    queues,
    schedules,
    service,
)
from pubqueue.faces.xmpp.commands.stages import own

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pubqueue.faces.xmpp.commands.stages import Command

COMMANDS: Final[Mapping[str, Command]] = {
    command.node: command
    for part in (queues, control, items, people, pending, schedules, service)
    for command in part.COMMANDS
}

# fmt: off
DOES: Final[Mapping[str, str]] = {
    own("schedules"):         "Lists what is published at set times, with the next and the last time and the last error.",
    own("schedule-add"):      "Adds a schedule.",
    own("schedule-change"):   "Changes a schedule that a command has made.",
    own("schedule-remove"):   "Ends a schedule that a command has made; what it has published stays.",
    own("schedule-pause"):    "Stops a schedule for a while; it misses nothing meanwhile.",
    own("schedule-resume"):   "Lets a schedule go on.",
    own("schedule-fire"):     "Publishes the item of a schedule now.",
    f"{ns.PUBSUB}#get-pending": "Sends you a form for each subscription that waits for your approval (XEP-0060 8.7).",
}
"""What those do that are no operations (`app.operations`), as the documentation has it (`tools/reference`)."""
# fmt: on
