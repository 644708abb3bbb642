"""Look at queues: all of them with their counts, and the workers of one."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from pubqueue.core.model import Jid, NodeName
from pubqueue.core.reading.oversee import ReadWorkers
from pubqueue.core.reading.overviews import Power
from pubqueue.core.reading.read import ReadNodes
from pubqueue.faces.xmpp.commands.stages import Command, Field, Result, Stage, Table, own
from pubqueue.faces.xmpp.commands.words import (
    ago,
    ask_powers,
    choose_node,
    count,
    fact,
    listed,
    node_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pubqueue.app.rules import Request
    from pubqueue.core.model import Asker, NodeConfig, Subscription
    from pubqueue.core.reading.overviews import Worker, WorkerPage
    from pubqueue.core.reading.pages import NodeEntry, NodePage
    from pubqueue.faces.xmpp.commands.stages import Given

AFTER: Final = "after"

IN_WORDS: Final = 20
"""Rows that are told in words as well, for clients that show no tables."""

QUEUE_COLUMNS: Final = (
    ("node", "Node"),
    ("state", "State"),
    ("depth", "Waiting"),
    ("delayed", "Delayed"),
    ("in_flight", "In flight"),
    ("dead", "Dead"),
    ("oldest", "Oldest waits for"),
    ("rate", "Done per minute"),
    ("workers", "Subscribers"),
)

WORKER_COLUMNS: Final = (
    ("jid", "Worker"),
    ("state", "State"),
    ("window", "Takes at once"),
    ("in_flight", "Holds"),
    ("unanswered", "Unanswered in a row"),
    ("items", "Items"),
)


def _ask_queues(by: Asker, given: Given) -> Request:
    after = given.one(AFTER)
    return ReadNodes(by, NodeName(after) if after else None, managed=True)


def _show_queues(page: NodePage, given: Given) -> Result:
    rows = tuple(_queue(entry, page) for entry in page.entries)
    note = f"{count(len(rows), 'node')}{', and there are more' if page.more else ''}."
    note += " Done per minute: by this process, over the last five minutes."
    more = {AFTER: (page.entries[-1].node.name,)} if page.more and page.entries else {}
    title = f"Nodes behind {given.one(AFTER)}" if given.one(AFTER) else "Queues"
    words = ((entry.node.name, _in_words(entry, page)) for entry in page.entries)
    return Result(
        note, title=title, facts=_rows(words), table=Table(QUEUE_COLUMNS, rows), more=more
    )


def _rows(words: Iterable[tuple[str, str]]) -> tuple[Field, ...]:
    """Return rows as facts: each under its name."""
    some = enumerate(islice(words, IN_WORDS), 1)
    return tuple(fact(f"row{number}", name, said) for number, (name, said) in some)


def _queue(entry: NodeEntry, page: NodePage) -> tuple[str, ...]:
    return (
        entry.node.name,
        _state(entry.node.config),
        str(entry.queued),
        str(entry.delayed),
        str(entry.locked),
        str(entry.dead),
        ago(page.now, entry.oldest),
        f"{entry.rate:.1f}",
        str(entry.node.subscriptions),
    )


def _in_words(entry: NodeEntry, page: NodePage) -> str:
    oldest = f", the oldest for {ago(page.now, entry.oldest)}" if entry.oldest else ""
    counts = f"{entry.queued + entry.delayed} waiting{oldest}, {entry.locked} in flight"
    return f"{_state(entry.node.config)}: {counts}, {entry.dead} dead"


def _state(config: NodeConfig) -> str:
    """Return what a node does at present."""
    if not config.queueing:
        return "no queue"
    words = ["paused"] if config.paused else []
    words += ["takes nothing in"] if config.publish_paused else []
    return listed(words) or "running"


def _ask_workers(by: Asker, given: Given) -> Request:
    after = given.one(AFTER)
    return ReadWorkers(by, node_of(given), Jid(after) if after else None)


def _show_workers(page: WorkerPage, _given: Given) -> Result:
    rows = tuple(_worker(worker) for worker in page.workers)
    note = f"{count(page.node.subscriptions, 'subscriber')} of {page.node.name}."
    note += f" These are the next {len(rows)}; there are more." if page.more else ""
    more = {AFTER: (page.workers[-1].subscription.jid,)} if page.more else {}
    title = f"Workers of {page.node.name}"
    words = ((one.subscription.jid, _works(one)) for one in page.workers)
    return Result(
        note, title=title, facts=_rows(words), table=Table(WORKER_COLUMNS, rows), more=more
    )


def _worker(worker: Worker) -> tuple[str, ...]:
    one = worker.subscription
    return (
        one.jid,
        _presence(one),
        str(one.queue_requests),
        str(one.in_flight),
        str(one.unanswered),
        _held(worker),
    )


def _works(worker: Worker) -> str:
    one = worker.subscription
    what = f": {_held(worker)}" if one.in_flight else ""
    return f"{_presence(one)}, holds {one.in_flight} of {one.queue_requests}{what}"


def _presence(subscription: Subscription) -> str:
    return "available" if subscription.available else "away or silent"


def _held(worker: Worker) -> str:
    if worker.holds is None:
        return "too many to list"
    left = worker.subscription.in_flight - len(worker.holds)
    return listed(worker.holds) + (f" and {left} more" if left > 0 else "")


COMMANDS: Final = (
    Command(
        own("queues"),
        "List the queues",
        Power.NODES,
        (Stage(_ask_queues, _show_queues),),
    ),
    Command(
        own("workers"),
        "List the workers of a queue",
        Power.NODES,
        (
            Stage(
                ask_powers(Power.NODES),
                choose_node("Workers", "Choose the queue whose workers you want to see."),
            ),
            Stage(_ask_workers, _show_workers),
        ),
    ),
)
