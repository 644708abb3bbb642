"""Operations of the service as programs perform them: an ad-hoc command (XEP-0050) that is executed in one step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pubqueue_xeps.wire.ns import COMMANDS, DATA, PUBQUEUE
from pubqueue_xeps.wire.requests import IqRequest
from pubqueue_xeps.wire.xml_text import content, quote

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from xml.etree.ElementTree import Element

    Fields = dict[str, tuple[str, ...]]
    """The values of the fields of a form, or of one of its rows, by name."""

FORM_TYPE: Final = f"{PUBQUEUE}#operation"
"""The form of an operation for programs; for people it has titles, labels and steps."""


@dataclass(frozen=True, slots=True)
class Performed:
    """The answer to an operation; `warns` is whether its note is a warning."""

    note: str
    warns: bool
    known: Fields
    rows: list[Fields]


def perform(name: str, label: str, words: Mapping[str, Sequence[str]]) -> IqRequest:
    """Return the request for an operation; `label` names it in messages."""
    fields = _field("FORM_TYPE", (FORM_TYPE,)) + "".join(_field(*each) for each in words.items())
    x = f"<x xmlns='{DATA}' type='submit'>{fields}</x>"
    node = quote(f"{PUBQUEUE}#{name}")
    inner = f"<command xmlns='{COMMANDS}' node={node} action='execute'>{x}</command>"
    return IqRequest("set", label, inner)


def read(answer: Element) -> Performed | None:
    """Read the answer; None if it is not one for programs: the service does not know the operation in this form."""
    command = answer.find(f"{{{COMMANDS}}}command")
    form = None if command is None else command.find(f"{{{DATA}}}x")
    known = {} if form is None else _fields(form)
    if command is None or form is None or known.get("FORM_TYPE") != (FORM_TYPE,):
        return None
    note = command.find(f"{{{COMMANDS}}}note")
    return Performed(
        note="" if note is None else note.text or "",
        warns=note is not None and note.get("type") == "warn",
        known=known,
        rows=[_fields(item) for item in form.iterfind(f"{{{DATA}}}item")],
    )


def _field(var: str, values: Sequence[str]) -> str:
    inner = "".join(f"<value>{content(value)}</value>" for value in values)
    return f"<field var={quote(var)}>{inner}</field>"


def _fields(element: Element) -> Fields:
    return {
        field.get("var", ""): tuple(
            value.text or "" for value in field.iterfind(f"{{{DATA}}}value")
        )
        for field in element.iterfind(f"{{{DATA}}}field")
    }
