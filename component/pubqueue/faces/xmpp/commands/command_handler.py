"""Handles the steps of commands: reads the step, finds the session, sends the request to the core, and renders the reply.

Each refusal is a stanza error with the condition of XEP-0050 4.4; a refusal of the core is the same as for any other
request. The session stays at its stage, so the user can correct the form. The only language is English; a request in
another language is answered in English, marked as such.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pubqueue.faces.xmpp.commands import operation_forms, program, write
from pubqueue.faces.xmpp.commands.command_steps import Form, Result
from pubqueue.faces.xmpp.commands.sessions import CommandSessions
from pubqueue.faces.xmpp.commands.table import COMMANDS
from pubqueue.faces.xmpp.commands.words import unfit
from pubqueue.faces.xmpp.parse.iq import Asked
from pubqueue.faces.xmpp.refusals import NO_SUCH_COMMAND, StanzaError
from pubqueue.faces.xmpp.xml import forms
from pubqueue.operations import table
from pubqueue.operations.model import Given, UnfitError, fit
from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.faces.xmpp.commands.sessions import CommandSession
    from pubqueue.faces.xmpp.parse.iq import Iq
    from pubqueue.faces.xmpp.xml.stanza import Element
    from pubqueue.model.decision import Refused, Reply
    from pubqueue.model.entities import Principal
    from pubqueue.operations.model import Operation

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
        if command.operation is not None and step.form_type == program.FORM_TYPE:
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
            return program.completed(session.command.node, session.name, operation, answer)

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
            return write.command(node, session.name, "canceled")
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
                return write.command(session.command.node, session.name, "completed")
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
            return write.command(node, name, "completed", shown)
        session.at, session.given, session.shown = at, given, shown
        self.sessions.keep(session)
        return write.command(node, name, "executing", shown, actions=_allowed(session))

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
