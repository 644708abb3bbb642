"""Queues: a list with counts, the workers of one queue, and the event log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.faces.xmpp.commands.operation_forms import (
    ask_powers,
    choose_node,
    choosing,
    doing,
    listed,
    rows_in_words,
    table_of,
)
from pubqueue.faces.xmpp.commands.steps import CommandStep, CommandTable, Result, of
from pubqueue.operations.items import EVENTS
from pubqueue.operations.model import ago
from pubqueue.operations.nodes import QUEUES
from pubqueue.operations.service import OVERVIEW, WORKERS

if TYPE_CHECKING:
    from pubqueue.model.replies import NodePage, Worker, WorkerPage
    from pubqueue.operations.model import Given, Row

AFTER: Final = "after"


def _show_queues(page: NodePage, given: Given) -> Result:
    answer = QUEUES.answer(page, given)
    title = f"Nodes after {given.one(AFTER)}" if given.one(AFTER) else "Queues"
    words = ((str(row[0]), _in_words(row, page)) for row in answer.rows)
    return Result(
        answer.note,
        title=title,
        facts=rows_in_words(words),
        table=table_of(QUEUES, answer),
        more={AFTER: (answer.through,)} if answer.more else {},
    )


def _in_words(row: Row, page: NodePage) -> str:
    cells = dict(zip((column.name for column in QUEUES.columns), row, strict=True))
    since = cells["oldest"]
    oldest = f", the oldest for {ago(page.now, since)}" if isinstance(since, int) else ""
    waiting = sum(n for n in (cells["depth"], cells["delayed"]) if isinstance(n, int))
    counts = f"{waiting} waiting{oldest}, {cells['in_flight']} in flight"
    return f"{cells['state']}: {counts}, {cells['dead']} dead"


def _show_workers(page: WorkerPage, given: Given) -> Result:
    answer = WORKERS.answer(page, given)
    table = table_of(WORKERS, answer)
    held = [_held(worker) for worker in page.workers]
    rows = tuple((*row[:-1], what) for row, what in zip(table.rows, held, strict=True))
    words = (
        (row[0], f"{row[1]}, holds {row[3]} of {row[2]}{f': {row[-1]}' if row[3] != '0' else ''}")
        for row in rows
    )
    return Result(
        answer.note,
        title=f"Workers of {page.node.name}",
        facts=rows_in_words(words),
        table=CommandTable(table.columns, rows),
        more={AFTER: (answer.through,)} if answer.more else {},
    )


def _held(worker: Worker) -> str:
    if worker.holds is None:
        return "too many to list"
    left = worker.subscription.in_flight - len(worker.holds)
    return listed(worker.holds) + (f" and {left} more" if left > 0 else "")


COMMANDS: Final = (
    of(OVERVIEW, doing(OVERVIEW)),
    of(QUEUES, doing(QUEUES, _show_queues)),
    of(
        WORKERS,
        CommandStep(
            ask_powers(WORKERS.power),
            choose_node("Workers", "Choose the queue whose workers you want to see."),
        ),
        doing(WORKERS, _show_workers),
    ),
    choosing(EVENTS),
)
