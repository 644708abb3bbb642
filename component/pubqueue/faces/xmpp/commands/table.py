"""The table of all commands by node, in the order in which clients see them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.faces.xmpp.commands import own_forms
from pubqueue.faces.xmpp.commands.operation_forms import command_of
from pubqueue.operations.table import OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pubqueue.faces.xmpp.commands.steps import Command

# fmt: off
ORDER: Final = (
    "overview", "queues", "workers", "events", "pause", "resume", "pause-publishing", "resume-publishing",
    "items", "dead", "reasons", "peek", "redrive", "discard", "cancel", "release", "purge",
    "end-subscription", "members", "affiliate", "get-pending",
    "schedules", "schedule-show", "schedule-add", "schedule-change", "schedule-remove", "schedule-pause",
    "schedule-resume", "schedule-fire",
    "registrations", "registration-disable", "registration-enable", "registration-end",
    "connections", "end-connection", "kept-messages", "drop-kept-messages",
    "settings", "configure", "delete", "create", "service",
)
"""The order of commands; operations that are not named here follow."""


def _in_order() -> Iterator[Command]:
    """Yield the commands: made by hand, or from the operation."""
    made = {name: command_of(one) for name, one in OPERATIONS.items()} | dict(own_forms.COMMANDS)
    return map(made.__getitem__, dict.fromkeys((*ORDER, *made)))


COMMANDS: Final[Mapping[str, Command]] = {command.node: command for command in _in_order()}

DOES: Final[Mapping[str, str]] = {
    own_forms.GET_PENDING.node: "Sends you a form for each subscription that waits for your approval (XEP-0060 8.7).",
}
"""Descriptions of the commands that are not operations, for the documentation (`tools/reference`)."""
# fmt: on
