"""Ad-hoc commands on the wire (XEP-0050): requests, discovery, steps and stages."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pubqueue.faces.xmpp.commands import operation_forms
from pubqueue.faces.xmpp.commands.operation_forms import unfit
from pubqueue.faces.xmpp.commands.steps import CommandSessions, Form, Result
from pubqueue.faces.xmpp.commands.table import COMMANDS
from pubqueue.faces.xmpp.parse import reading
from pubqueue.faces.xmpp.parse.iq import Asked
from pubqueue.faces.xmpp.xml import forms
from pubqueue.faces.xmpp.xml.refusals import NO_SUCH_COMMAND, StanzaError
from pubqueue.faces.xmpp.xml.stanza import attribute, escape, quoted
from pubqueue.operations import table
from pubqueue.operations.model import Given, UnfitError, fit
from pubqueue.rules.inspect import AskPowers
from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pubqueue.faces.xmpp.commands.steps import (
        Command,
        CommandSession,
        CommandTable,
        Field,
        Shown,
    )
    from pubqueue.faces.xmpp.parse.iq import Iq
    from pubqueue.faces.xmpp.xml.stanza import Element
    from pubqueue.model.decision import Refused, Reply, Request
    from pubqueue.model.entities import Principal
    from pubqueue.model.replies import Powers
    from pubqueue.operations.model import Operation


# Handles the steps of commands: reads the step, finds the session, sends the request to the core, and renders the reply.
#
# Each refusal is a stanza error with the condition of XEP-0050 4.4; a refusal of the core is the same as for any other
# request. The session stays at its stage, so the user can correct the form. The only language is English; a request in
# another language is answered in English, marked as such.

X: Final = ns.tag(ns.DATA, "x")
IGNORED: Final = frozenset({ns.tag(ns.COMMANDS, "actions"), ns.tag(ns.COMMANDS, "note")})
"""Elements that only a responder sends; they are ignored in requests."""

KNOWN_ACTIONS: Final = frozenset({"execute", "prev", "next", "complete", "cancel"})

MAX_FORM_LENGTH: Final = 16_384
"""Maximum characters of a submitted form: the session keeps them until the command ends."""


def _bad(detail: str, text: str) -> StanzaError:
    return StanzaError("modify", "bad-request", detail, text=text, namespace=ns.COMMANDS)


MALFORMED_ACTION: Final = _bad("malformed-action", "this is not an action of XEP-0050")
NO_SESSION: Final = _bad("bad-sessionid", "you have no such session for this command")
BUSY: Final = _bad("bad-action", "the previous step is still in progress")
EXPIRED: Final = StanzaError(
    *("cancel", "not-allowed", "session-expired"),
    text="this session has ended or timed out; start the command again",
    namespace=ns.COMMANDS,
)


@dataclass(frozen=True, slots=True)
class Step:
    """A step, as sent."""

    action: str
    session: str | None
    given: Given | None
    """The values of the form; None if there was no form."""
    form_type: str | None = None
    """The FORM_TYPE of the form."""


class CommandHandler:
    """Serves the commands of one face."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.sessions = CommandSessions(clock)

    def take(self, iq: Iq) -> Asked | StanzaError | bytes:
        """Read a step, and return the request for it, or the answer."""
        node = iq.child.get("node") or ""
        command = COMMANDS.get(node)
        if command is None:
            return NO_SUCH_COMMAND
        step = _read(iq)
        if isinstance(step, StanzaError):
            return step
        if step.session is not None:
            return self._go_on(iq, node, step)
        if step.action != "execute":
            return _bad("bad-action", f"{step.action} is possible only within a session")
        session = self.sessions.begin(iq.by.jid, command)
        if command.operation is not None and step.form_type == operation_forms.FORM_TYPE:
            return self._perform(iq, session, command.operation, step.given or Given())
        return self._ask(iq, session, 0, [])

    def _perform(
        self, iq: Iq, session: CommandSession, operation: Operation, given: Given
    ) -> Asked | StanzaError:
        """Perform an operation for a program in one step, and answer with a form for programs."""
        try:
            meant = fit(operation, given, operation_forms.READERS)
            request = operation.ask(iq.by, meant)
        except UnfitError as problem:
            return unfit(str(problem))

        def write_answer(reply: Any, _service: str) -> bytes:  # noqa: ANN401  # as the request has it
            table.performed(operation, iq.by, meant)
            answer = operation.answer(reply, meant)
            return operation_forms.completed(session.command.node, session.name, operation, answer)

        return Asked(request, write_answer, lambda _refused: None)

    def _go_on(self, iq: Iq, node: str, step: Step) -> Asked | StanzaError | bytes:
        """Handle a step of an existing session."""
        name = step.session or ""
        session = self.sessions.find(iq.by.jid, name)
        if session is None:
            return EXPIRED if self.sessions.has_ended(name) else NO_SESSION
        if session.command.node != node:
            return NO_SESSION
        if step.action == "cancel":
            self.sessions.end(session)
            return command(node, session.name, "canceled")
        if session.busy:
            return BUSY
        allowed = _allowed(session)
        action = step.action
        if action == "execute":
            action = "next" if "next" in allowed else "complete"
        if action not in {
            *allowed,
            "next",
        }:  # some clients always continue with `next` (poezio)
            return _bad("bad-action", f"allowed at this stage: {', '.join((*allowed, 'cancel'))}")
        return self._act(iq, session, action, step.given)

    def _act(
        self, iq: Iq, session: CommandSession, action: str, given: Given | None
    ) -> Asked | StanzaError | bytes:
        if action == "prev":
            return self._ask(iq, session, session.at - 1, session.given[:-1])
        if isinstance(session.shown, Result):
            if action == "complete":
                self.sessions.end(session)
                return command(session.command.node, session.name, "completed")
            more = Given(session.shown.more)
            return self._ask(iq, session, session.at, [*session.given[: session.at], more])
        given = Given() if given is None else given
        if (no := _missing_field(session.form, given)) is not None:
            return no
        return self._ask(iq, session, session.at + 1, [*session.given, given])

    def _ask(
        self, iq: Iq, session: CommandSession, at: int, given: list[Given]
    ) -> Asked | StanzaError | bytes:
        """Enter a stage, and send its request to the core."""
        stage, together = session.command.stages[at], _all_values(given)
        request = stage.ask(iq.by, together)
        if isinstance(request, StanzaError):
            return request
        if isinstance(request, Result):
            return self._show(session, at, given, request)
        session.busy = True
        return Asked(
            request,
            partial(self._write, iq.by, session, at, given),
            partial(self._stay, session),
        )

    def _write(
        self,
        by: Principal,
        session: CommandSession,
        at: int,
        given: list[Given],
        reply: Reply,
        _: str,
    ) -> bytes:
        """Render the result of a stage; the last one ends the session."""
        session.busy = False
        operation = session.command.operation
        if operation is not None and at + 1 == len(session.command.stages):
            table.performed(
                operation, by, operation_forms.parameters_of(operation, _all_values(given))
            )
        shown = session.command.stages[at].show(reply, _all_values(given))
        return self._show(session, at, given, shown)

    def _show(
        self, session: CommandSession, at: int, given: list[Given], shown: Form | Result
    ) -> bytes:
        node, name = session.command.node, session.name
        if isinstance(shown, Result) and not shown.more:
            self.sessions.end(session)
            return command(node, name, "completed", shown)
        session.at, session.given, session.shown = at, given, shown
        self.sessions.keep(session)
        return command(node, name, "executing", shown, actions=_allowed(session))

    def _stay(self, session: CommandSession, _refused: Refused) -> bytes | None:
        """Keep the session at its stage, because the core has refused the step."""
        session.busy = False
        return None


def _all_values(given: list[Given]) -> Given:
    """Return the values of all forms; a later value replaces an earlier one."""
    return Given({var: values for each in given for var, values in each.items()})


def _allowed(session: CommandSession) -> tuple[str, ...]:
    """Return the actions that are allowed at this stage, except cancel."""
    if isinstance(session.shown, Result):  # a part of a long table
        return ("next", "complete")
    back = ("prev",) if session.at else ()
    last = session.at + 2 >= len(session.command.stages)
    return (*back, "complete" if last else "next")


def _read(iq: Iq) -> Step | StanzaError:
    child = iq.child
    action, session = child.get("action") or "execute", child.get("sessionid")
    if action not in KNOWN_ACTIONS:
        return MALFORMED_ACTION
    if session == "":
        return NO_SESSION
    payload = [element for element in child.children if element.tag not in IGNORED]
    if len(payload) > 1 or any(element.tag != X for element in payload):
        return _bad("bad-payload", "the payload must be one form (jabber:x:data)")
    if not payload:
        return Step(action, session, None)
    return _filled_in(iq, payload[0], Step(action, session, None))


def _filled_in(iq: Iq, x: Element, step: Step) -> Step | StanzaError:
    """Read a form. A cancelled form counts as submitted (XEP-0050 3.5.1)."""
    try:
        form = forms.read(iq.cut(x))
    except forms.FormError as problem:
        return _bad("bad-payload", str(problem))
    if form.type not in {"submit", "cancel"}:
        return _bad("bad-payload", "a form of type submit is required")
    given = Given({var: tuple(values) for var, values in form.fields.items()})
    size = sum(len(var) + sum(map(len, values)) for var, values in given.items())
    if size > MAX_FORM_LENGTH:
        return _bad("bad-payload", f"a form may have up to {MAX_FORM_LENGTH} characters")
    return replace(step, given=given, form_type=form.form_type)


def _missing_field(form: Form | None, given: Given) -> StanzaError | None:
    """Refuse a form in which a required field is empty."""
    for field in () if form is None else form.fields:
        if field.required and not given.lines(field.var):
            return _bad("bad-payload", f"this field is required: {field.label} ({field.var})")
    return None


# Service discovery of commands (XEP-0050 2.2): an account sees only the commands that it may execute.

LABEL = "Manage queues"


def _info(node: str, kind: str, label: str, *features: str) -> str:
    identity = f'<identity category="automation" type="{kind}" name="{attribute(label)}"/>'
    each = "".join(f'<feature var="{feature}"/>' for feature in (ns.COMMANDS, *features))
    return f'<query xmlns="{ns.DISCO_INFO}" node="{attribute(node)}">{identity}{each}</query>'


def list_info() -> str:
    """Return the disco#info of the node that lists the commands."""
    return _info(ns.COMMANDS, "command-list", LABEL)


def command_info(command: Command, _powers: Powers, _service: str) -> bytes:
    """Return the disco#info of one command."""
    return _info(command.node, "command-node", command.label, ns.DATA).encode()


def items(powers: Powers, service: str) -> bytes:
    """Return the commands that an account with these powers may execute."""
    jid = attribute(service)
    entries = "".join(
        f'<item jid="{jid}" node="{attribute(command.node)}" name="{attribute(command.label)}"/>'
        for command in COMMANDS.values()
        if command.power in powers.held
    )
    return f'<query xmlns="{ns.DISCO_ITEMS}" node="{ns.COMMANDS}">{entries}</query>'.encode()


def no_items(command: Command, _powers: Powers, _service: str) -> bytes:
    """Return an empty list: commands have no items."""
    return f'<query xmlns="{ns.DISCO_ITEMS}" node="{attribute(command.node)}"/>'.encode()


# Reads steps of commands (XEP-0050), and discovery requests for commands or nodes.


def step(iq: Iq) -> Asked | StanzaError | bytes:
    """Read a step of a command (XEP-0050 2.4)."""
    return NO_SUCH_COMMAND if iq.command_handler is None else iq.command_handler.take(iq)


def disco_info(iq: Iq) -> Request | Asked | StanzaError | bytes:
    """Read a disco#info request: for the list of commands or a command that the account may see (XEP-0050 2.2), or for a node or the service."""
    node = iq.child.get("node")
    if node == ns.COMMANDS:
        return list_info().encode()
    if node is not None and (command := COMMANDS.get(node)) is not None:
        request = AskPowers(iq.by, command.power)
        return Asked(request, partial(command_info, command), _nothing_instead)
    return reading.disco_info(iq)


def disco_items(iq: Iq) -> Request | Asked | StanzaError:
    """Read a disco#items request: for the principal's commands (XEP-0050 2.2), a command, which has no items, or for nodes or a node's items."""
    node = iq.child.get("node")
    if node == ns.COMMANDS:
        return Asked(AskPowers(iq.by), items, _nothing_instead)
    if node is not None and (command := COMMANDS.get(node)) is not None:
        request = AskPowers(iq.by, command.power)
        return Asked(request, partial(no_items, command), _nothing_instead)
    return reading.disco_items(iq)


def _nothing_instead(_refused: Refused) -> bytes | None:
    return None


# Writes stages as XML: forms, tables and notes in the command element (XEP-0050 3, XEP-0004 3).

ACTIONS: Final = ("prev", "next", "complete")


def command(
    node: str, session: str, status: str, shown: Shown | None = None, *, actions: Iterable[str] = ()
) -> bytes:
    """Return the answer to a step. `execute` means the first of `next` and `complete`."""
    words = f'node="{quoted(node)}" sessionid="{quoted(session)}" status="{status}" xml:lang="en"'
    inner = _actions(tuple(actions))
    if isinstance(shown, Form):
        inner += _form(shown)
    elif isinstance(shown, Result):
        inner += _result(shown)
    return f'<command xmlns="{ns.COMMANDS}" {words}>{inner}</command>'.encode()


def _actions(allowed: tuple[str, ...]) -> str:
    if not allowed:
        return ""
    default = "next" if "next" in allowed else "complete"
    each = "".join(f"<{action}/>" for action in ACTIONS if action in allowed)
    return f'<actions execute="{default}">{each}</actions>'


def _form(form: Form) -> str:
    head = f"<instructions>{escape(form.instructions)}</instructions>"
    head += f"<title>{escape(form.title)}</title>"
    if form.form_type:
        head += f'<field var="FORM_TYPE" type="hidden"><value>{form.form_type}</value></field>'
    fields = "".join(map(_field, form.fields))
    return f'<x xmlns="{ns.DATA}" type="form">{head}{fields}</x>'


def _field(field: Field) -> str:
    words = f'type="{field.kind}"'
    words = f'var="{quoted(field.var)}" {words}' if field.kind != "fixed" else words
    words += f' label="{quoted(field.label)}"' if field.label else ""
    inner = f"<desc>{escape(field.hint)}</desc>" if field.hint else ""
    inner += "<required/>" if field.required else ""
    inner += "".join(f"<value>{escape(value)}</value>" for value in field.value)
    inner += "".join(
        f'<option label="{quoted(label)}"><value>{escape(value)}</value></option>'
        for value, label in field.options
    )
    return f"<field {words}>{inner}</field>"


def _result(result: Result) -> str:
    note = f'<note type="{result.kind}">{escape(result.note)}</note>' if result.note else ""
    if not result.facts and result.table is None:
        return note
    inner = f"<title>{escape(result.title)}</title>" if result.title else ""
    inner += "".join(map(_field, result.facts))
    inner += "" if result.table is None else _table(result.table)
    return f'<x xmlns="{ns.DATA}" type="result">{inner}</x>{note}'


def _table(table: CommandTable) -> str:
    heads = "".join(
        f'<field var="{var}" type="text-single" label="{quoted(label)}"/>'
        for var, label in table.columns
    )
    rows = "".join(_row(table, row) for row in table.rows)
    return f"<reported>{heads}</reported>{rows}"


def _row(table: CommandTable, row: tuple[str, ...]) -> str:
    cells = "".join(
        f'<field var="{var}"><value>{escape(cell)}</value></field>'
        for (var, _), cell in zip(table.columns, row, strict=True)
    )
    return f"<item>{cells}</item>"
