"""All commands: those made from operations, and the forms that differ from what can be made of one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pubqueue.faces.xmpp.commands.operation_forms import (
    ask_powers,
    choose_node,
    command_of,
    doing,
    fact,
    facts_of,
    field_of,
    listing,
    node_first,
    node_of,
    offering,
    parameters_of,
    unfit,
)
from pubqueue.faces.xmpp.commands.steps import Command, CommandStep, Field, Form, Result, of
from pubqueue.faces.xmpp.xml.fields import FIELDS, VALUES, shown_new, wanted
from pubqueue.faces.xmpp.xml.payload import to_text
from pubqueue.model.entities import AccessModel, NodeName, State
from pubqueue.model.replies import Found, Power
from pubqueue.operations.items import CHOICES, CHOSEN_FROM, ITEMS, PEEK
from pubqueue.operations.model import Given, ago, stamp
from pubqueue.operations.nodes import CREATE, QUEUES
from pubqueue.operations.schedules import CHANGE, DEFINING, SCHEDULES, SHOW, state_of
from pubqueue.operations.service import WORKERS
from pubqueue.operations.table import OPERATIONS
from pubqueue.rules.nodes import Create
from pubqueue.rules.subscribers import AT_ONCE, SendPending
from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pubqueue.faces.xmpp.xml.fields import Field as NodeField
    from pubqueue.faces.xmpp.xml.refusals import StanzaError
    from pubqueue.model.decision import Done, Request
    from pubqueue.model.entities import Principal
    from pubqueue.model.replies import NodePage, Peeked, Powers, Worker, WorkerPage
    from pubqueue.model.schedules import Definition, Schedule, SchedulePage
    from pubqueue.operations.model import Row


# Commands whose forms or results are not those of `operation_forms`, each with the reason.

# Lists whose rows are sentences for clients without tables: a label before each cell would be too long for them.


def _show_queues(page: NodePage, given: Given) -> Result:
    answer, after = QUEUES.answer(page, given), given.one("after")
    words = ((str(row[0]), _queue_in_words(row, page)) for row in answer.rows)
    return listing(QUEUES, answer, f"Nodes after {after}" if after else "Queues", words)


def _queue_in_words(row: Row, page: NodePage) -> str:
    cells = dict(zip((column.name for column in QUEUES.columns), row, strict=True))
    since = cells["oldest"]
    oldest = f", the oldest for {ago(page.now, since)}" if isinstance(since, int) else ""
    waiting = sum(n for n in (cells["depth"], cells["delayed"]) if isinstance(n, int))
    counts = f"{waiting} waiting{oldest}, {cells['in_flight']} in flight"
    return f"{cells['state']}: {counts}, {cells['dead']} dead"


def _show_workers(reply: WorkerPage | Found, given: Given) -> Result:
    answer = WORKERS.answer(reply, given)
    page: WorkerPage = reply.page if isinstance(reply, Found) else reply
    held = [_held(worker) for worker in page.workers]
    rows = tuple((*row[:-1], (what,)) for row, what in zip(answer.rows, held, strict=True))
    words = (
        (str(row[0]), f"{row[1]}, holds {row[3]} of {row[2]}{f': {what}' if row[3] else ''}")
        for row, what in zip(rows, held, strict=True)
    )
    title = f"Workers of {page.node.name}"
    return listing(WORKERS, replace(answer, rows=rows), title, words)


def _held(worker: Worker) -> str:
    if worker.holds is None:
        return "too many to list"
    left = worker.subscription.in_flight - len(worker.holds)
    return ", ".join(worker.holds) + (f" and {left} more" if left > 0 else "")


def _show_schedules(page: SchedulePage, given: Given) -> Result:
    answer, after = SCHEDULES.answer(page, given), given.one("after")
    words = ((one.name, _schedule_in_words(one)) for one in page.schedules)
    return listing(SCHEDULES, answer, f"Schedules after {after}" if after else "Schedules", words)


def _schedule_in_words(one: Schedule) -> str:
    words = [f"{state_of(one)}, to {one.definition.node}"]
    words += [f"next {stamp(one.due)}"] if one.due is not None else []
    words += [f"last {stamp(one.last)}"] if one.last is not None else []
    words += [one.error] if one.error else []
    return ", ".join(words)


# One item: the first form also asks in which state, which is no parameter; and the result has the payload as it was published.

SHOWN: Final = 4_000
"""Maximum bytes of a payload in an answer."""

WHICH: Final = Field("which", "list-single", "Items", (State.DEAD.value,), CHOICES)


def _ask_items(by: Principal, given: Given) -> Request | StanzaError:
    which = given.one(WHICH.var) or "all"
    if which not in dict(CHOICES):
        return unfit(f"{WHICH.var}: one of {', '.join(dict(CHOICES))}")
    words = (("node", node_of(given)), ("state", which), CHOSEN_FROM)
    return ITEMS.ask(by, Given({name: (value,) for name, value in words}))


def _show_item(reply: Peeked, given: Given) -> Result:
    answer = PEEK.answer(reply, given)
    facts = [field for field in facts_of(PEEK, answer) if field.var != "payload"]
    text = reply.payload[:SHOWN].decode("utf-8", "replace")
    cut = len(reply.payload) > SHOWN
    payload = fact("payload", "Beginning of the payload" if cut else "Payload", text)
    title = f"Item {reply.item.id} of {reply.node}"
    return Result(answer.note, title=title, facts=(*facts, payload))


# A new node: the settings that are most often changed have fields of their own, with the labels of XEP-0060.

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


def _show_new_node(_powers: Powers, _given: Given) -> Form:
    new, known = shown_new(), {field.var: field for field in FIELDS}
    settings = (
        Field(
            var,
            known[var].type,
            known[var].label,
            (FIRST.get(var, new[var]),),
            _options(known[var]),
        )
        for var in SETTINGS
    )
    name = field_of(CREATE.parameter(NAME))
    return Form(CREATE.label, CREATE.about, (name, *settings))


def _options(field: NodeField) -> tuple[tuple[str, str], ...]:
    usual = ((USUAL, "default: members for a queue, anyone for other nodes"),)
    options = tuple((option, VALUES.get(option, option)) for option in field.options)
    return usual + options if field.var == MODEL else options


def _ask_create(by: Principal, given: Given) -> Request:
    fields = {var: list(given[var]) for var in SETTINGS if given.one(var) not in {"", USUAL}}
    return Create(by, NodeName(given.one(NAME)), wanted(fields))


# A changed schedule: its second form begins with what stands.


def _show_one(page: SchedulePage, _given: Given) -> Form:
    (one,) = page.schedules
    values = _field_values(one.definition)
    fields = tuple(replace(field_of(each), value=values[each.name]) for each in DEFINING)
    return Form(f"Change {one.name}", CHANGE.about, fields)


def _field_values(what: Definition) -> dict[str, tuple[str, ...]]:
    """Return the settings of a schedule as values of form fields."""
    return {
        "cron": (what.cron,),
        "zone": (what.zone,),
        "node": (what.node,),
        "payload": tuple(to_text(what.payload).split("\n")),
        "missed": (what.missed.value,),
        "priority": (str(what.priority),),
        "ttl": () if what.ttl is None else (f"{what.ttl / 1000:.15g}",),
        "headers": tuple(f"{name}: {value}" for name, value in what.headers),
        "group": (what.group,) if what.group else (),
    }


# Pending subscriptions: no operation, but a command of XEP-0060 (8.7). The requests are sent to an owner again.

PENDING_NODE: Final = "pubsub#node"


def _show_pending(_done: Done, given: Given) -> Result:
    node = node_of(given, PENDING_NODE)
    return Result(f"The pending requests of {node} are sent to you, up to {AT_ONCE} at a time.")


GET_PENDING: Final = Command(
    f"{ns.PUBSUB}#get-pending",
    "Get requests to subscribe",
    Power.NODES,
    (
        CommandStep(
            ask_powers(Power.NODES),
            choose_node(
                "Requests to subscribe",
                "Choose the node whose requests you want to answer.",
                fits=lambda node: node.config.access_model is AccessModel.AUTHORIZE,
                none="You own no nodes whose subscriptions need approval.",
                var=PENDING_NODE,
                form_type=ns.SUBSCRIBE_AUTHORIZATION,
            ),
        ),
        CommandStep(lambda by, given: SendPending(by, node_of(given, PENDING_NODE)), _show_pending),
    ),
)


BY_HAND: Final[Mapping[str, Command]] = {
    "queues": command_of(QUEUES, _show_queues),
    "workers": command_of(WORKERS, _show_workers),
    "schedules": command_of(SCHEDULES, _show_schedules),
    "peek": of(
        PEEK,
        node_first(PEEK, (WHICH,)),
        CommandStep(_ask_items, offering(PEEK, PEEK.parameter("item")).show),
        doing(PEEK, _show_item),
    ),
    "create": of(
        CREATE,
        CommandStep(ask_powers(CREATE.power), _show_new_node),
        CommandStep(_ask_create, doing(CREATE).show),
    ),
    "schedule-change": of(
        CHANGE,
        offering(CHANGE, CHANGE.parameter("schedule")),
        CommandStep(lambda by, given: SHOW.ask(by, parameters_of(SHOW, given)), _show_one),
        doing(CHANGE),
    ),
    "get-pending": GET_PENDING,
}
"""These commands by their names; all but the last perform the operation of that name."""


# The table of all commands by node, in the order in which clients see them.

# fmt: off
ORDER: Final = (
    "overview", "queues", "workers", "events", "pause", "resume", "pause-publishing", "resume-publishing",
    "items", "dead", "reasons", "deaths", "peek", "item", "redrive", "discard", "cancel", "release", "signal", "signal-link",
    "close-join", "purge",
    "quiet-worker", "resume-worker", "end-subscription", "members", "affiliate", "get-pending",
    "schedules", "schedule-show", "schedule-add", "schedule-change", "schedule-remove", "schedule-pause",
    "schedule-resume", "schedule-fire",
    "registrations", "registration-disable", "registration-enable", "registration-end",
    "connections", "end-connection", "kept-messages", "drop-kept-messages",
    "settings", "definitions", "configure", "delete", "create", "service",
)
"""The order of commands; operations that are not named here follow."""


def _in_order() -> Iterator[Command]:
    """Yield the commands: made by hand, or from the operation."""
    made = {name: command_of(one) for name, one in OPERATIONS.items()} | dict(BY_HAND)
    return map(made.__getitem__, dict.fromkeys((*ORDER, *made)))


COMMANDS: Final[Mapping[str, Command]] = {command.node: command for command in _in_order()}

DOES: Final[Mapping[str, str]] = {
    GET_PENDING.node: "Sends you a form for each subscription that waits for your approval (XEP-0060 8.7).",
}
"""Descriptions of the commands that are not operations, for the documentation (`tools/reference`)."""
# fmt: on
