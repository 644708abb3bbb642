"""The parts of a command: its stages, and the forms and results that these show."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pubqueue.engine.table import Request
    from pubqueue.faces.xmpp.refusals import StanzaError
    from pubqueue.model.entities import Principal
    from pubqueue.model.replies import Power
    from pubqueue.operations.model import Given, Operation

INFO: Final = "info"
WARN: Final = "warn"
ERROR: Final = "error"


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a form: its name, type, label and value."""

    var: str
    kind: str
    label: str
    value: tuple[str, ...] = ()
    options: tuple[tuple[str, str], ...] = ()
    """Values to choose from, each with its label."""
    required: bool = False
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Form:
    """A form to fill in."""

    title: str
    instructions: str
    fields: tuple[Field, ...]
    form_type: str = ""


@dataclass(frozen=True, slots=True)
class CommandTable:
    """A table; each column has a name and a label."""

    columns: tuple[tuple[str, str], ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a command: a sentence, and facts or a table. `more` is where the next stage continues."""

    note: str
    kind: str = INFO
    title: str = ""
    facts: tuple[Field, ...] = ()
    table: CommandTable | None = None
    more: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


Shown = Form | Result


@dataclass(frozen=True, slots=True)
class CommandStep:
    """A stage: `ask` makes a request to the core from the values of the forms so far, and `show` presents the reply.

    `ask` may also return a result without a request, or an error if a value is invalid.
    """

    ask: Callable[[Principal, Given], Request | Result | StanzaError]
    show: Callable[[Any, Given], Shown]


@dataclass(frozen=True, slots=True)
class Command:
    """A command: its node, its label, the rights that it needs, and its stages. The last stage shows a result.

    Most commands perform an operation, and their stages ask for its parameters. A program can perform it in one step.
    """

    node: str
    label: str
    power: Power
    stages: tuple[CommandStep, ...]
    operation: Operation | None = None


def of(operation: Operation, *stages: CommandStep) -> Command:
    """Return a command with these stages for an operation."""
    node = own(operation.name)
    return Command(node, operation.label, operation.power, stages, operation)


def own(name: str) -> str:
    """Return the node of a command; no other node of the service has this name."""
    return f"{ns.PUBQUEUE}#{name}"
