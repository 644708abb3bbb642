"""The service itself: what runs here, and a new node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.core.model import NodeName
from pubqueue.core.nodes.manage import Create
from pubqueue.core.reading.oversee import AskService
from pubqueue.core.reading.overviews import Power
from pubqueue.faces.xmpp import settings
from pubqueue.faces.xmpp.commands.stages import Command, Field, Form, Result, Stage, own
from pubqueue.faces.xmpp.commands.words import ago, ask_powers, fact
from pubqueue.faces.xmpp.labels import VALUES
from pubqueue.faces.xmpp.text import stamp

if TYPE_CHECKING:
    from pubqueue.app.rules import Request
    from pubqueue.core.decision import Created
    from pubqueue.core.model import Asker
    from pubqueue.core.reading.overviews import Powers, ServiceState
    from pubqueue.faces.xmpp.commands.stages import Given

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
"""The settings that are asked for; all others are changed in the node's configuration."""

FIRST: Final = {"x-queueing#enabled": "1", MODEL: USUAL}
"""What stands in the form where that is not what any new node has."""


def _ask_service(by: Asker, _given: Given) -> Request:
    return AskService(by)


def _show_service(state: ServiceState, _given: Given) -> Result:
    about = state.about
    facts = (
        fact("version", "Version of pubqueue", about.version),
        fact("uptime", "Runs for", ago(state.now, about.since)),
        fact("started", "Started at", stamp(about.since) if about.since else ""),
        fact("store", "Store", about.store),
        fact("nodes", "Nodes", str(state.nodes)),
    )
    return Result("", title="About the service", facts=facts)


def _show_form(_powers: Powers, _given: Given) -> Form:
    name = Field(NAME, "text-single", "Name of the node", required=True)
    words = "You will own the node. All other settings can be changed later, in its configuration."
    return Form("Create a node", words, (name, *_fields()))


def _fields() -> tuple[Field, ...]:
    new = settings.shown_new()
    known = {field.var: field for field in settings.FIELDS}
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


def _options(field: settings.Field) -> tuple[tuple[str, str], ...]:
    usual = (
        ((USUAL, "as usual: a queue is for members, another node for all"),)
        if field.var == MODEL
        else ()
    )
    return (*usual, *((option, VALUES.get(option, option)) for option in field.options))


def _ask_create(by: Asker, given: Given) -> Request:
    fields = {var: list(given[var]) for var in SETTINGS if given.one(var) not in {"", USUAL}}
    return Create(by, NodeName(given.one(NAME)), settings.wanted(fields))


def _show_created(reply: Created, _given: Given) -> Result:
    return Result(f"{reply.node} is there, and you own it.")


COMMANDS: Final = (
    Command(
        own("create"),
        "Create a node",
        Power.CREATE,
        (Stage(ask_powers(Power.CREATE), _show_form), Stage(_ask_create, _show_created)),
    ),
    Command(
        own("service"),
        "About the service",
        Power.SERVICE,
        (Stage(_ask_service, _show_service),),
    ),
)
