"""Pauses and resumes deliveries or publishing, by a setting of the node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.faces.xmpp.commands.operation_forms import choosing
from pubqueue.operations.nodes import SWITCHES, SWITCHING

if TYPE_CHECKING:
    from pubqueue.faces.xmpp.commands.steps import Command
    from pubqueue.model.entities import Node
    from pubqueue.operations.model import Operation
    from pubqueue.operations.nodes import Switch


def _command(switch: Switch, operation: Operation) -> Command:
    def fits(node: Node) -> bool:
        is_on: bool = getattr(node.config, switch.setting)
        return node.config.queueing and is_on is (switch.value == "0")

    return choosing(operation, fits=fits, none=switch.none)


COMMANDS: Final = tuple(map(_command, SWITCHES, SWITCHING))
