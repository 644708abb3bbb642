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
    own("queues"):            "lists the nodes with what waits, is delayed, in flight and dead, for how long the oldest waits, and how many items were done in a minute",
    own("workers"):           "who subscribes to a queue, how much each takes at once, and what it holds",
    own("pause"):             "hands nothing out for a while",
    own("resume"):            "hands out again",
    own("pause-publishing"):  "takes nothing in for a while",
    own("resume-publishing"): "takes in again",
    own("peek"):              "shows an item with its last error and the beginning of its payload (4,000 bytes); that takes nothing",
    own("redrive"):           "gives dead items another life, all of them (1,000 at a time) or those you name, where they came from or elsewhere",
    own("release"):           "takes items away from those who hold them; others get them at once, and it is nobody's failure",
    own("purge"):             "deletes all items of a node, after asking once more",
    own("end-subscription"):  "ends the subscription of a worker, and takes away what it holds",
    own("create"):            "makes a node, for those who run one and may create others",
    own("schedules"):         "lists what is published at set times, with the next and the last time and the last error",
    own("schedule-add"):      "adds a schedule",
    own("schedule-change"):   "changes a schedule that a command has made",
    own("schedule-remove"):   "ends a schedule that a command has made; what it has published stays",
    own("schedule-pause"):    "stops a schedule for a while; it misses nothing meanwhile",
    own("schedule-resume"):   "lets a schedule go on",
    own("schedule-fire"):     "publishes the item of a schedule now",
    own("service"):           "version, uptime and store, for administrators",
    f"{ns.PUBSUB}#get-pending": "sends you a form for each subscription that waits for your approval (XEP-0060 8.7)",
}
"""What each does, as the documentation has it (`tools/reference`)."""
# fmt: on
