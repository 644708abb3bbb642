"""Form fields and facts that commands share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.faces.xmpp.commands.command_steps import Field, Form, Result
from pubqueue.faces.xmpp.refusals import StanzaError
from pubqueue.model.entities import NodeName
from pubqueue.rules.inspect import AskPowers
from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pubqueue.engine.table import Request
    from pubqueue.faces.xmpp.commands.command_steps import Shown
    from pubqueue.model.entities import Node, Principal
    from pubqueue.model.replies import Power, Powers
    from pubqueue.operations.model import Given

NODE: Final = "node"
OTHER: Final = "other_node"


def fact(var: str, label: str, value: str) -> Field:
    """Return a fact of a result."""
    lines = tuple(value.split("\n"))
    return Field(var, "text-multi" if len(lines) > 1 else "text-single", label, lines)


def ask_powers(power: Power) -> Callable[[Principal, Given], Request]:
    """Return the first request of a command whose first form lists the nodes that the principal may manage."""
    return lambda by, _given: AskPowers(by, power)


def choose_node(
    title: str,
    instructions: str,
    *,
    fits: Callable[[Node], bool] = lambda node: node.config.queueing,
    none: str = "You own no queues.",
    more: tuple[Field, ...] = (),
    var: str = NODE,
    form_type: str = "",
) -> Callable[[Powers, Given], Shown]:
    """Return a function that shows the first form: a choice of the nodes that fit, and further fields.

    If there are too many nodes, the form lists the first ones, and has a field for the name of another.
    """

    def show(powers: Powers, _given: Given) -> Shown:
        named = [node for node in powers.nodes if fits(node)]
        if not named and not powers.more:
            return Result(none)
        return Form(title, instructions, _choice(named, powers, more, var), form_type)

    return show


def _choice(
    named: list[Node], powers: Powers, more: tuple[Field, ...], var: str
) -> tuple[Field, ...]:
    options = tuple((node.name, _shown(node)) for node in named)
    first = (named[0].name,) if named else ()
    pick = Field(var, "list-single", "Node", first, options, required=not powers.more)
    if not powers.more:
        return (pick, *more)
    hint = f"Only the first {len(powers.nodes)} of your nodes are listed."
    other = Field(OTHER, "text-single", "Or the name of another node", hint=hint)
    return (*((pick, other) if named else (other,)), *more)


def _shown(node: Node) -> str:
    title = node.config.title
    return f"{node.name} ({title})" if title and title != node.name else node.name


def node_of(given: Given, var: str = NODE) -> NodeName:
    """Return the chosen node."""
    return NodeName(given.one(OTHER) or given.one(var))


def unfit(text: str) -> StanzaError:
    """Return the error for an invalid field."""
    return StanzaError("modify", "bad-request", "bad-payload", text=text, namespace=ns.COMMANDS)


def listed(names: Iterable[str]) -> str:
    """Return the names with commas between them."""
    return ", ".join(names)
