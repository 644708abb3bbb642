"""Those who subscribe to a queue: end the subscription of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.core.queue.free import Dismiss
from pubqueue.core.reading.oversee import ReadWorkers
from pubqueue.core.reading.overviews import Power
from pubqueue.faces.xmpp.commands.stages import Command, Field, Form, Result, Stage, own
from pubqueue.faces.xmpp.commands.words import ask_powers, choose_node, count, node_of, unfit
from pubqueue.faces.xmpp.parse.iq import jid_of

if TYPE_CHECKING:
    from pubqueue.app.rules import Request
    from pubqueue.core.model import Asker
    from pubqueue.core.reading.overviews import Freed, Worker, WorkerPage
    from pubqueue.faces.xmpp.commands.stages import Given, Shown
    from pubqueue.faces.xmpp.refusals import StanzaError

WORKER, OTHER, FREEING = "worker", "other_worker", "release"


def _ask_workers(by: Asker, given: Given) -> Request:
    return ReadWorkers(by, node_of(given))


def _choose(page: WorkerPage, _given: Given) -> Shown:
    if not page.workers:
        return Result(f"Nobody subscribes to {page.node.name}.")
    options = tuple((one.subscription.jid, _about(one)) for one in page.workers)
    words = (
        "Choose the worker. It may subscribe again, unless you take its affiliation away as well."
    )
    fields = (
        Field(WORKER, "list-single", "Worker", options[0][:1], options),
        Field(OTHER, "text-single", "Or another one, by its JID"),
        Field(FREEING, "boolean", "Take away what it holds, so that others get it at once", ("1",)),
    )
    return Form(f"Workers of {page.node.name}", words, fields)


def _about(worker: Worker) -> str:
    one = worker.subscription
    return f"{one.jid} (holds {one.in_flight} of {one.queue_requests})"


def _ask_dismissal(by: Asker, given: Given) -> Request | StanzaError:
    jid = jid_of(given.one(OTHER) or given.one(WORKER))
    if jid is None:
        return unfit("choose a worker; a JID looks like bot@example.org/1")
    return Dismiss(by, node_of(given), jid, freeing=given.says_yes(FREEING))


def _show(reply: Freed, given: Given) -> Result:
    who = given.one(OTHER) or given.one(WORKER)
    freed = f"; {count(reply.count, 'lock')} ended" if reply.count else ""
    return Result(f"The subscription of {who} to {reply.node} has ended{freed}.")


COMMANDS: Final = (
    Command(
        own("end-subscription"),
        "End a worker's subscription",
        Power.NODES,
        (
            Stage(
                ask_powers(Power.NODES),
                choose_node(
                    "End a subscription", "Choose the queue that the worker subscribes to."
                ),
            ),
            Stage(_ask_workers, _choose),
            Stage(_ask_dismissal, _show),
        ),
    ),
)
