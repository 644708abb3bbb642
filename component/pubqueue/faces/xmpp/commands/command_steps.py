"""The parts of a command: its stages, and what a stage shows, a form or a result."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pubqueue.app.management.given import Given
    from pubqueue.app.management.model import Operation
    from pubqueue.app.rules import Request
    from pubqueue.core.model import Principal
    from pubqueue.core.reading.summaries import Power
    from pubqueue.faces.xmpp.refusals import StanzaError

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
    """Rows under columns; a column is a name and a label."""

    columns: tuple[tuple[str, str], ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a command: a sentence, and facts or a table. With `more`, the next stage continues there."""

    note: str
    kind: str = INFO
    title: str = ""
    facts: tuple[Field, ...] = ()
    table: CommandTable | None = None
    more: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


Shown = Form | Result


@dataclass(frozen=True, slots=True)
class CommandStep:
    """What is asked of the core with what was filled in so far, and what is shown of the reply.

    `ask` may show something without asking, or find what was filled in unfit.
    """

    ask: Callable[[Principal, Given], Request | Result | StanzaError]
    show: Callable[[Any, Given], Shown]


@dataclass(frozen=True, slots=True)
class Command:
    """A command: its node, its label, the power that it needs, and its stages. The last stage shows a result.

    Most commands are an operation, whose parameters the stages ask for; a program can perform it in one step.
    """

    node: str
    label: str
    power: Power
    stages: tuple[CommandStep, ...]
    operation: Operation | None = None


def of(operation: Operation, *stages: CommandStep) -> Command:
    """Return the command of an operation with these stages."""
    node = own(operation.name)
    return Command(node, operation.label, operation.power, stages, operation)


def own(name: str) -> str:
    """Return the node of one of our commands; no other node of the service has this name."""
    return f"{ns.PUBQUEUE}#{name}"
