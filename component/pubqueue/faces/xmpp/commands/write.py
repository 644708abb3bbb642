"""Writes stages as XML: forms, tables and notes in the command element (XEP-0050 3, XEP-0004 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.faces.xmpp.commands.command_steps import Form, Result
from pubqueue.faces.xmpp.xml.text import escape, quoted
from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pubqueue.faces.xmpp.commands.command_steps import CommandTable, Field, Shown

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
