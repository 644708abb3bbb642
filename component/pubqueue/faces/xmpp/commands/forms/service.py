"""The service: its version and state, and nodes: create, configure, delete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.faces.xmpp.commands.operation_forms import ask_powers, choosing, doing
from pubqueue.faces.xmpp.commands.steps import CommandStep, Field, Form, Result, of
from pubqueue.faces.xmpp.xml.fields import FIELDS, VALUES, shown_new, wanted
from pubqueue.model.entities import NodeName
from pubqueue.operations.nodes import CONFIGURE, CREATE, DELETE
from pubqueue.operations.nodes import SETTINGS as SETTINGS_OF
from pubqueue.operations.service import SERVICE
from pubqueue.rules.nodes import Create

if TYPE_CHECKING:
    from pubqueue.faces.xmpp.xml.fields import Field as NodeField
    from pubqueue.model.decision import Request
    from pubqueue.model.entities import Principal
    from pubqueue.model.replies import Created, Powers
    from pubqueue.operations.model import Given

NAME: Final = "name"
MODEL, USUAL = "pubsub#access_model", "usual"

SETTINGS: Final = (
    "x-queueing#enabled",
    "pubsub#title",
    MODEL,
    "x-queueing#lock_timeout",
    "x-queueing#max_failures",
    "x-queueing#dead_letter_node",
    "x-queueing#event_log",
)
"""The settings in the form; all others are changed in the node's configuration."""

FIRST: Final = {"x-queueing#enabled": "1", MODEL: USUAL}
"""Initial values in the form that differ from the defaults of a new node."""


def _show_form(_powers: Powers, _given: Given) -> Form:
    name = Field(NAME, "text-single", "Name of the node", required=True)
    words = "You will own the node. All other settings can be changed later, in its configuration."
    return Form("Create a node", words, (name, *_fields()))


def _fields() -> tuple[Field, ...]:
    new = shown_new()
    known = {field.var: field for field in FIELDS}
    return tuple(
        Field(
            var,
            known[var].type,
            known[var].label,
            (FIRST.get(var, new[var]),),
            _options(known[var]),
        )
        for var in SETTINGS
    )


def _options(field: NodeField) -> tuple[tuple[str, str], ...]:
    usual = (
        ((USUAL, "default: members for a queue, anyone for other nodes"),)
        if field.var == MODEL
        else ()
    )
    return (*usual, *((option, VALUES.get(option, option)) for option in field.options))


def _ask_create(by: Principal, given: Given) -> Request:
    fields = {var: list(given[var]) for var in SETTINGS if given.one(var) not in {"", USUAL}}
    return Create(by, NodeName(given.one(NAME)), wanted(fields))


def _show_created(reply: Created, _given: Given) -> Result:
    return Result(f"{reply.node} was created; you own it.")


COMMANDS: Final = (
    choosing(SETTINGS_OF),
    choosing(CONFIGURE),
    choosing(DELETE),
    of(
        CREATE,
        CommandStep(ask_powers(CREATE.power), _show_form),
        CommandStep(_ask_create, _show_created),
    ),
    of(SERVICE, doing(SERVICE)),
)
