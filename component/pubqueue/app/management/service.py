"""Operations on workers, and on the service itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, assert_never

from pubqueue.app.management.cells import Cell
from pubqueue.app.management.model import (
    AFTER,
    NODE,
    Answer,
    Column,
    Operation,
    Parameter,
    ParameterKind,
)
from pubqueue.app.management.nodes import node_of
from pubqueue.app.management.words import count
from pubqueue.model.entities import Jid
from pubqueue.model.limits import MIB, Unit, by_whose
from pubqueue.model.replies import Power
from pubqueue.rules.inspect import AskService, ReadWorkers
from pubqueue.rules.unlock import Dismiss

if TYPE_CHECKING:
    from pubqueue.app.management.given import Given
    from pubqueue.app.management.model import Row
    from pubqueue.app.rules import Request
    from pubqueue.model.entities import Principal
    from pubqueue.model.limits import Limit, Whose
    from pubqueue.model.replies import Freed, Fullness, ServiceState, Worker, WorkerPage

HERE, AWAY = "available", "away or silent"


def _ask_workers(by: Principal, given: Given) -> Request:
    after = given.one("after")
    return ReadWorkers(by, node_of(given), Jid(after) if after else None)


def _workers(page: WorkerPage, _given: Given) -> Answer:
    rows = tuple(map(_worker, page.workers))
    note = f"{count(page.node.subscriptions, 'subscriber')} of {page.node.name}."
    note += f" These are the next {len(rows)}; there are more." if page.more else ""
    through = page.workers[-1].subscription.jid if rows else ""
    return Answer(note, rows, through, more=page.more and bool(rows))


def _worker(worker: Worker) -> Row:
    one = worker.subscription
    here = HERE if one.available else AWAY
    return one.jid, here, one.queue_requests, one.in_flight, one.unanswered, worker.holds


WORKERS: Final = Operation(
    "workers",
    "List the workers of a queue",
    "The subscribers of a queue, with their windows and the items that they hold.",
    Power.NODES,
    (NODE, AFTER),
    (
        Column("jid", "Worker"),
        Column("state", "State"),
        Column("window", "Window", Cell.COUNT),
        Column("in_flight", "Holds", Cell.COUNT),
        Column("unanswered", "Unanswered in a row", Cell.COUNT),
        Column("items", "Items", Cell.NAMES),
    ),
    _ask_workers,
    _workers,
    place="jid",
)


def _ask_dismiss(by: Principal, given: Given) -> Request:
    freeing = given.says_yes("release")
    return Dismiss(by, node_of(given), Jid(given.one("worker")), freeing=freeing)


def _dismissed(reply: Freed, given: Given) -> Answer:
    freed = f"; {count(reply.count, 'lock')} ended" if reply.count else ""
    who = given.one("worker")
    note = f"The subscription of {who} to {reply.node} has ended{freed}."
    return Answer(note, ((reply.count,),))


END_SUBSCRIPTION: Final = Operation(
    "end-subscription",
    "End a worker's subscription",
    "The worker gets no more items. It may subscribe again, unless you also remove its affiliation.",
    Power.NODES,
    (
        NODE,
        Parameter("worker", ParameterKind.JID, "Worker", required=True),
        Parameter(
            *(
                "release",
                ParameterKind.FLAG,
                "End its locks, so that other workers get the items at once",
            ),
            usual="1",
        ),
    ),
    (Column("count", "Locks ended", Cell.COUNT),),
    _ask_dismiss,
    _dismissed,
    single=True,
    changes=True,
)


def _state(state: ServiceState, _given: Given) -> Answer:
    about, quota, kept = state.about, state.quota, state.kept
    held_to = tuple(map(_sentence, by_whose(state.limits).items()))
    ago = max((one.ago for one in state.rounds), default=0.0)
    late = tuple(one.task for one in state.rounds if one.late)
    facts = about.version, about.since, about.since, about.store, state.nodes, about.ahead, held_to
    may = quota.nodes, quota.items, quota.bytes
    nearest = tuple(map(_fullness, kept.nearest))
    holds = kept.accounts, kept.items, kept.bytes, *may, kept.near, nearest
    return Answer("", ((*facts, round(ago, 1), late, *holds),), now=state.now)


def _sentence(of: tuple[Whose, list[Limit]]) -> str:
    """Return the limits of one kind of principal: "an account: 2,048 requests in progress, ..."."""
    whose, found = of
    return f"{whose.value}: {', '.join(map(_limit, found))}"


def _limit(limit: Limit) -> str:
    match limit.unit:
        case Unit.NUMBER:
            return f"{limit.most:,.0f} {limit.what}"
        case Unit.BYTES:
            return f"{limit.most / MIB:,g} MiB{limit.what.removeprefix('bytes')}"
        case Unit.SECONDS:
            return f"{limit.most:g} s of {limit.what}"
        case _:
            assert_never(limit.unit)


def _fullness(one: Fullness) -> str:
    return f"{one.holding.account} ({one.share:.0%} of {one.what})"


SERVICE: Final = Operation(
    "service",
    "About the service",
    "The version, uptime and store of the service, and the limits of accounts (0: no limit).",
    Power.SERVICE,
    (),
    (
        Column("version", "Version of pubqueue"),
        Column("uptime", "Uptime", Cell.SINCE),
        Column("started", "Started at", Cell.MOMENT),
        Column("store", "Store"),
        Column("nodes", "Nodes", Cell.COUNT),
        Column("clock_ahead", "Milliseconds that the store's clock is ahead", Cell.COUNT),
        Column("limits", "Limits of concurrent work", Cell.NAMES),
        Column("longest_round", "Seconds since the slowest task last completed a round", Cell.RATE),
        Column("late", "Tasks that are late", Cell.NAMES),
        Column("accounts", "Accounts that have created nodes", Cell.COUNT),
        Column("items", "Items", Cell.COUNT),
        Column("bytes", "Bytes of items", Cell.COUNT),
        Column("nodes_limit", "Maximum nodes of an account", Cell.COUNT),
        Column("items_limit", "Maximum items of an account", Cell.COUNT),
        Column("bytes_limit", "Maximum bytes of an account", Cell.COUNT),
        Column("near", "Accounts near their limits", Cell.COUNT),
        Column("nearest", "Nearest to their limits", Cell.NAMES),
    ),
    lambda by, _given: AskService(by),
    _state,
    single=True,
)

OPERATIONS: Final = (WORKERS, END_SUBSCRIPTION, SERVICE)
