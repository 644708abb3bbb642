"""Workers of a queue: end a subscription; and the affiliations of a node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.faces.xmpp.commands.operation_forms import (
    OTHER,
    ask_powers,
    choose_node,
    choosing,
    doing,
    field_of,
    node_of,
)
from pubqueue.faces.xmpp.commands.steps import CommandStep, Field, Form, Result, of
from pubqueue.operations.nodes import AFFILIATE, MEMBERS
from pubqueue.operations.service import END_SUBSCRIPTION
from pubqueue.rules.inspect import ReadWorkers

if TYPE_CHECKING:
    from pubqueue.faces.xmpp.commands.steps import Shown
    from pubqueue.model.decision import Request
    from pubqueue.model.entities import Principal
    from pubqueue.model.replies import Worker, WorkerPage
    from pubqueue.operations.model import Given


def _ask_workers(by: Principal, given: Given) -> Request:
    return ReadWorkers(by, node_of(given))


def _choose(page: WorkerPage, _given: Given) -> Shown:
    if not page.workers:
        return Result(f"{page.node.name} has no subscribers.")
    options = tuple((one.subscription.jid, _about(one)) for one in page.workers)
    words = "Choose the worker. It may subscribe again, unless you also remove its affiliation."
    worker = END_SUBSCRIPTION.parameter("worker")
    fields = (
        Field(worker.name, "list-single", worker.label, options[0][:1], options),
        Field(OTHER + worker.name, "text-single", "Or the JID of another worker"),
        field_of(END_SUBSCRIPTION.parameter("release")),
    )
    return Form(f"Workers of {page.node.name}", words, fields)


def _about(worker: Worker) -> str:
    one = worker.subscription
    return f"{one.jid} (holds {one.in_flight} of {one.queue_requests})"


COMMANDS: Final = (
    of(
        END_SUBSCRIPTION,
        CommandStep(
            ask_powers(END_SUBSCRIPTION.power),
            choose_node("End a subscription", "Choose the queue that the worker subscribes to."),
        ),
        CommandStep(_ask_workers, _choose),
        doing(END_SUBSCRIPTION),
    ),
    choosing(MEMBERS),
    choosing(AFFILIATE),
)
