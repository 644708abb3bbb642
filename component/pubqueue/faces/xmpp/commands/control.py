"""Stop and go: hand out nothing, or take nothing in, for a while. Each is a setting of the node, and a command sets it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from pubqueue.core.nodes.manage import Configure
from pubqueue.core.nodes.nodeconfig import Settings
from pubqueue.core.reading.overviews import Power
from pubqueue.faces.xmpp.commands.stages import Command, Result, Stage, own
from pubqueue.faces.xmpp.commands.words import ask_powers, choose_node, node_of

if TYPE_CHECKING:
    from pubqueue.app.rules import Request
    from pubqueue.core.decision import Done
    from pubqueue.core.model import Asker, Node
    from pubqueue.faces.xmpp.commands.stages import Given


class Switch(NamedTuple):
    """A setting to turn on (1) or off (0), and what is said about it."""

    node: str
    label: str
    setting: str
    value: str
    instructions: str
    done: str
    none: str


# fmt: off
SWITCHES: Final = (
    Switch("pause", "Pause a queue", "paused", "1",
           "A paused queue hands out nothing more. What workers hold they may finish, and publishers go on.",
           "{} hands out nothing until it is resumed.", "No queue of yours is running."),
    Switch("resume", "Resume a paused queue", "paused", "0",
           "A queue that is resumed hands out again.",
           "{} hands out again.", "No queue of yours is paused."),
    Switch("pause-publishing", "Pause publishing to a queue", "publish_paused", "1",
           "Publishers are told to wait and to try again later. Workers go on with what is there.",
           "{} takes nothing in until publishing is resumed.", "All your queues are closed to publishers already."),
    Switch("resume-publishing", "Resume publishing to a queue", "publish_paused", "0",
           "Publishers may publish again.",
           "{} takes work in again.", "No queue of yours is closed to publishers."),
)
# fmt: on


def _command(switch: Switch) -> Command:
    def fits(node: Node) -> bool:
        is_on: bool = getattr(node.config, switch.setting)
        return node.config.queueing and is_on is (switch.value == "0")

    def ask(by: Asker, given: Given) -> Request:
        return Configure(by, node_of(given), Settings({switch.setting: switch.value}))

    def show(_reply: Done, given: Given) -> Result:
        return Result(switch.done.format(node_of(given)))

    choose = choose_node(switch.label, switch.instructions, fits=fits, none=switch.none)
    stages = Stage(ask_powers(Power.NODES), choose), Stage(ask, show)
    return Command(own(switch.node), switch.label, Power.NODES, stages)


COMMANDS: Final = tuple(_command(switch) for switch in SWITCHES)
