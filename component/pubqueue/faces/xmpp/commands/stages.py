"""What a command is made of: stages, and what a stage shows, a form to fill in or a result."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pubqueue.faces.xmpp import ns

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pubqueue.app.rules import Request
    from pubqueue.core.model import Asker
    from pubqueue.core.reading.overviews import Power
    from pubqueue.faces.xmpp.refusals import StanzaError

INFO: Final = "info"
WARN: Final = "warn"
ERROR: Final = "error"


class Given(dict[str, tuple[str, ...]]):
    """What has been filled in so far: of each field its values."""

    def one(self, var: str) -> str:
        """Return the value of a field, stripped; empty if there is none."""
        values = self.get(var, ())
        return values[0].strip() if values else ""

    def lines(self, var: str) -> tuple[str, ...]:
        """Return the lines of a field, each once, without those that are empty."""
        stripped = (line.strip() for line in self.get(var, ()))
        return tuple(dict.fromkeys(line for line in stripped if line))

    def says_yes(self, var: str) -> bool:
        """Say whether a boolean was set."""
        return self.one(var) in {"1", "true"}


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a form: what it is called, how it is asked for, and what stands in it."""

    var: str
    kind: str
    label: str
    value: tuple[str, ...] = ()
    options: tuple[tuple[str, str], ...] = ()
    """Values to choose from, each with how it is shown."""
    required: bool = False
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Form:
    """What is asked for."""

    title: str
    instructions: str
    fields: tuple[Field, ...]
    form_type: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under columns; a column is a name and a label."""

    columns: tuple[tuple[str, str], ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Result:
    """What was done or found: a sentence about it, and facts or a table. With `more`, the next stage goes on there."""

    note: str
    kind: str = INFO
    title: str = ""
    facts: tuple[Field, ...] = ()
    table: Table | None = None
    more: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


Shown = Form | Result


@dataclass(frozen=True, slots=True)
class Stage:
    """What is asked of the core with what was filled in so far, and what is shown of the reply.

    `ask` may show something without asking, or find what was filled in unfit.
    """

    ask: Callable[[Asker, Given], Request | Result | StanzaError]
    show: Callable[[Any, Given], Shown]


@dataclass(frozen=True, slots=True)
class Command:
    """A command: its node, its name for people, who is offered it, and its stages. The last one shows a result."""

    node: str
    label: str
    power: Power
    stages: tuple[Stage, ...]


def own(name: str) -> str:
    """Return the node of a command of ours; no other node of the service is called so."""
    return f"{ns.OURS}#{name}"
