"""The parts of a command, and its sessions, which are kept in memory."""

from __future__ import annotations

import re
import uuid
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pubqueue.model.entities import NUMBER, account_of
from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pubqueue.faces.xmpp.xml.refusals import StanzaError
    from pubqueue.model.decision import Request
    from pubqueue.model.entities import Jid, Principal
    from pubqueue.model.replies import Power
    from pubqueue.operations.model import Given, Operation


# Sessions of commands, kept in memory: a few for each account, for a limited time.

MAX_SESSIONS: Final = 1_000
"""Maximum number of sessions; beyond it the least recently used one expires."""

MAX_OF_ACCOUNT: Final = 20
"""Maximum number of sessions of an account, for all its JIDs together; beyond it likewise."""

AGE: Final = 600.0
"""Seconds after which an unused session expires."""

_NAME: Final = re.compile(f"([0-9a-f]{{32}})-{NUMBER}")


@dataclass(slots=True)
class CommandSession:
    """An execution of a command. `shown` is the form or result of the stage `at`."""

    name: str
    jid: Jid
    command: Command
    at: int = 0
    given: list[Given] = field(default_factory=list)
    """The values of the form of each stage before `at`."""
    shown: Shown | None = None
    used: float = 0.0
    busy: bool = False
    """Whether a step is in progress."""

    @property
    def form(self) -> Form | None:
        """The form that the user has to fill in, if there is one."""
        return self.shown if isinstance(self.shown, Form) else None


class CommandSessions:
    """The open sessions, least recently used first."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._process = uuid.uuid4().hex
        self._count = 0
        self._kept: OrderedDict[str, CommandSession] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of sessions."""
        return len(self._kept)

    def begin(self, jid: Jid, command: Command) -> CommandSession:
        """Return a new session, which is stored only by `keep`."""
        self._count += 1
        return CommandSession(f"{self._process}-{self._count}", jid, command)

    def keep(self, session: CommandSession) -> None:
        """Store a session for its next step, and remove sessions that are beyond a limit or too old."""
        session.used = self._clock()
        self._kept[session.name] = session
        self._kept.move_to_end(session.name)
        self._forget_old()
        mine = [
            one for one in self._kept.values() if account_of(one.jid) == account_of(session.jid)
        ]
        for one in mine[:-MAX_OF_ACCOUNT]:
            self.end(one)
        while len(self._kept) > MAX_SESSIONS:
            self._kept.popitem(last=False)

    def end(self, session: CommandSession) -> None:
        """Remove a session."""
        self._kept.pop(session.name, None)

    def find(self, jid: Jid, name: str) -> CommandSession | None:
        """Return the session with this name, if it belongs to exactly this JID."""
        self._forget_old()
        session = self._kept.get(name)
        return session if session is not None and session.jid == jid else None

    def has_ended(self, name: str) -> bool:
        """Return whether a session of this name, in this or another process, has ended or expired."""
        found = _NAME.fullmatch(name)
        if found is None or name in self._kept:
            return False
        return found[1] != self._process or 0 < int(found[2]) <= self._count

    def _forget_old(self) -> None:
        before = self._clock() - AGE
        while self._kept:
            name, oldest = next(iter(self._kept.items()))
            if oldest.used >= before:
                return
            del self._kept[name]


# The parts of a command: its stages, and the forms and results that these show.

INFO: Final = "info"
WARN: Final = "warn"


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
