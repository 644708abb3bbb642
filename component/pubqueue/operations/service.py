"""Operations on workers, on all queues at once, and on the service itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, assert_never

from msgspec.structs import replace

from pubqueue.model import replies
from pubqueue.model.entities import Jid
from pubqueue.model.limits import MIB, Unit, by_whose
from pubqueue.operations.model import (
    AFTER,
    MAX_ROWS,
    NODE,
    Action,
    Answer,
    Cell,
    Column,
    Of,
    Offer,
    Operation,
    Parameter,
    ParameterKind,
    count,
    queues,
)
from pubqueue.operations.nodes import node_of, state_of
from pubqueue.operations.searching import (
    ANY,
    answered,
    place_from,
    place_in_words,
    searched,
    searches,
)
from pubqueue.rules.alerts import ReadAlerts, Wrong
from pubqueue.rules.inspect import AskService, ReadWorkers
from pubqueue.rules.subscribers import QuietWorker
from pubqueue.rules.survey import PROBLEMS, STATES, Problem, ReadSurvey, Sort, place_of
from pubqueue.rules.unlock import Dismiss

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pubqueue.model.decision import Request
    from pubqueue.model.entities import Principal, Subscription
    from pubqueue.model.limits import Limit, Whose
    from pubqueue.model.records import Alert, AlertPage
    from pubqueue.operations.model import Given, Row


# Operations on workers, and on the service itself.

HERE, AWAY, QUIET = "available", "away or silent", "quiet"


def _read_workers(by: Principal, given: Given, after: str) -> ReadWorkers:
    return ReadWorkers(by, node_of(given), Jid(after) if after else None, given.number("max"))


def _workers(page: replies.WorkerPage, _given: Given) -> Answer:
    rows = tuple(map(_worker, page.workers))
    note = f"{count(page.node.subscriptions, 'subscriber')} of {page.node.name}."
    note += f" These are the next {len(rows)}; there are more." if page.more else ""
    through = page.workers[-1].subscription.jid if rows else ""
    return Answer(note, rows, through, more=page.more and bool(rows))


def worker_state(one: Subscription) -> str:
    """Return the current state of a worker, in words."""
    if one.quiet:
        return QUIET
    return HERE if one.available else AWAY


def _worker(worker: replies.Worker) -> Row:
    one = worker.subscription
    return (
        one.jid,
        worker_state(one),
        one.queue_requests,
        one.in_flight,
        one.unanswered,
        worker.holds,
    )


WORKERS: Final = Operation(
    "workers",
    "List the workers of a queue",
    "The subscribers of a queue, with their windows and the items that they hold.",
    replies.Power.NODES,
    (NODE, *searches(ReadWorkers, "their addresses"), AFTER, MAX_ROWS),
    (
        Column("jid", "Worker"),
        Column("state", "State"),
        Column("window", "Window", Cell.COUNT),
        Column("in_flight", "Holds", Cell.COUNT),
        Column("unanswered", "Unanswered in a row", Cell.COUNT),
        Column("items", "Items", Cell.NAMES),
    ),
    searched(_read_workers),
    answered(_workers),
    place="jid",
    nodes=queues("Workers", "Choose the queue whose workers you want to see."),
    manual="List the workers of a queue and their items.",
)


def _windows(page: replies.WorkerPage) -> Iterator[tuple[str, str]]:
    for one in (worker.subscription for worker in page.workers):
        yield one.jid, f"{one.jid} (holds {one.in_flight} of {one.queue_requests})"


def _ask_dismiss(by: Principal, given: Given) -> Request:
    freeing = given.says_yes("release")
    return Dismiss(by, node_of(given), Jid(given.one("worker")), freeing=freeing)


def _dismissed(reply: replies.Freed, given: Given) -> Answer:
    freed = f"; {count(reply.count, 'lock')} ended" if reply.count else ""
    who = given.one("worker")
    note = f"The subscription of {who} to {reply.node} has ended{freed}."
    return Answer(note, ((reply.count,),))


END_SUBSCRIPTION: Final = Operation(
    "end-subscription",
    "End a worker's subscription",
    "The worker gets no more items. It may subscribe again, unless you also remove its affiliation.",
    replies.Power.NODES,
    (
        NODE,
        Parameter(
            *("worker", ParameterKind.JID, "Worker"),
            required=True,
            metavar="JID",
            offer=Offer(
                *(WORKERS, _windows, "{node} has no subscribers.", "Or the JID of another worker"),
                title="Workers of {node}",
                about="Choose the worker. It may subscribe again, unless you also remove its affiliation.",
            ),
        ),
        Parameter(
            *(
                "release",
                ParameterKind.FLAG,
                "End its locks, so that other workers get the items at once",
            ),
            usual="1",
            option="--keep-locks",
            help="Let the worker finish the items that it holds.",
        ),
    ),
    (Column("count", "Locks ended", Cell.COUNT),),
    _ask_dismiss,
    _dismissed,
    single=True,
    changes=True,
    takes_away=True,
    nodes=queues("End a subscription", "Choose the queue that the worker subscribes to."),
    manual="End the subscription of a worker.\n\n"
    "The items that it holds are released, unless you pass --keep-locks. The worker may subscribe again, unless you make it an outcast"
    " (`pubqueue node members`).",
)


def _quieting(
    name: str, label: str, about: str, *, quiet: bool, question: str, action: Action, manual: str
) -> Operation:
    """Return an operation that has a worker get no further items, or get items again."""

    def offered(page: replies.WorkerPage) -> Iterator[tuple[str, str]]:
        mine = (one for one in page.workers if one.subscription.quiet is not quiet)
        return _windows(replace(page, workers=tuple(mine)))

    def ask(by: Principal, given: Given) -> Request:
        return QuietWorker(by, node_of(given), Jid(given.one("worker")), quiet)

    def answer(reply: replies.Quieted, given: Given) -> Answer:
        who, holds = given.one("worker"), count(reply.holds, "item")
        now = "no further items" if quiet else "items again"
        note = f"{who} gets {now} of {reply.node}; it holds {holds}."
        return Answer(note, ((reply.holds,),))

    none = f"{{node}} has no workers that {'can be quiet' if quiet else 'are quiet'}."
    worker = Parameter(
        *("worker", ParameterKind.JID, "Worker"),
        required=True,
        metavar="JID",
        offer=Offer(WORKERS, offered, none, "Or the JID of another worker", about=about),
    )
    return Operation(
        *(name, label, about, replies.Power.NODES, (NODE, worker)),
        (Column("count", "Items that it holds", Cell.COUNT),),
        *(ask, answer),
        single=True,
        changes=True,
        question=question,
        actions=(action,),
        nodes=queues(label, "Choose the queue that the worker subscribes to."),
        manual=manual,
    )


QUIET_WORKER: Final = _quieting(
    "quiet-worker",
    "Quiet a worker",
    "The worker gets no further items, and finishes those that it holds. This lasts until you resume it, or its subscription ends.",
    quiet=True,
    question="Deliver no further items to {} until you resume it?",
    action=Action(Of.WORKER, "Quiet", "Yes, quiet it"),
    manual="Deliver no further items to a worker.\n\n"
    "The worker stays subscribed, and finishes the items that it holds; the answer says how many. This lasts until you resume it, or its"
    " subscription ends. It survives restarts of the service. Name a stream of gRPC as `pubqueue connections` does: it is quiet as long as"
    " it is open, and only the instance that it is connected to knows it.",
)

RESUME_WORKER: Final = _quieting(
    "resume-worker",
    "Resume a quiet worker",
    "The worker gets items again.",
    quiet=False,
    question="Deliver items to {} again?",
    action=Action(Of.WORKER, "Resume", "Yes, resume it"),
    manual="Deliver items to a quiet worker again.",
)


def _state(state: replies.ServiceState, _given: Given) -> Answer:
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


def _fullness(one: replies.Fullness) -> str:
    return f"{one.holding.account} ({one.share:.0%} of {one.what})"


SERVICE: Final = Operation(
    "service",
    "About the service",
    "The version, uptime and store of the service, and the limits of accounts (0: no limit).",
    replies.Power.SERVICE,
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
    manual="Show version, uptime, store and limits.\n\nOnly administrators may use this command.",
)

ON_SERVICE: Final = (WORKERS, QUIET_WORKER, RESUME_WORKER, END_SUBSCRIPTION, SERVICE)


# The operation that looks at all queues at once: problems first, totals, sorted by any column.

SORTS: Final = (
    (Sort.PROBLEMS.value, "Problems first"),
    (Sort.NAME.value, "By name"),
    (Sort.WAITING.value, "Most waiting first"),
    (Sort.IN_FLIGHT.value, "Most in flight first"),
    (Sort.DELAYED.value, "Most delayed first"),
    (Sort.DEAD.value, "Most dead first"),
    (Sort.OLDEST.value, "Longest waiting first"),
    (Sort.RATE.value, "Most done first"),
    (Sort.SUBSCRIBERS.value, "Most subscribers first"),
    (Sort.ITEMS.value, "Most items first"),
)

SORT: Final = Parameter(
    *("sort", ParameterKind.CHOICE, "Order"),
    choices=SORTS,
    usual=Sort.PROBLEMS.value,
    help=f"Sort order: {', '.join(dict(SORTS))}.",
    metavar="COLUMN",
)
TROUBLED: Final = Parameter(
    *("state", ParameterKind.CHOICE, "Only with this problem"),
    choices=tuple((one, one) for one in (ANY, *STATES)),
    usual=ANY,
    help=f"Only queues with this problem: {', '.join(STATES)}.",
    metavar="STATE",
)
PLAIN: Final = Parameter("plain", ParameterKind.FLAG, "Plain nodes instead of queues", usual="0")
CONTAINING: Final = Parameter(
    *("containing", ParameterKind.TEXT, "Only names that contain this"),
    option="--match",
    help="Only names that contain this text.",
)

PHRASES: Final = {
    Problem.NO_WORKERS: "without workers",
    Problem.TOO_LARGE: "with items too large for their workers",
    Problem.FAILING: "failing",
    Problem.OLD: "with an item that waits too long",
    Problem.DEAD: "with dead items",
    Problem.PAUSED: "paused",
    Problem.CLOSED: "closed to publishers",
}
"""The name of a problem after a number of queues."""


def in_words(totals: replies.Totals, *, whole: bool) -> str:
    """Return the totals as a sentence or two."""
    counts = dict(totals.problems)
    which = ", ".join(f"{counts[one]} {PHRASES[one]}" for one in PROBLEMS if one in counts)
    troubles = f"{totals.troubled} with problems ({which})" if which else "none with a problem"
    return (
        f"{'' if whole else 'The first '}{count(totals.queues, 'queue')}, {troubles}, and {count(totals.plain, 'plain node')}."
        f" {totals.queued} waiting, {totals.delayed} delayed, {totals.locked} in flight, {totals.dead} dead,"
        f" {totals.rate:.1f} done per minute."
    )


def _ask(by: Principal, given: Given) -> Request:
    return ReadSurvey(
        by,
        Sort(given.one("sort") or Sort.PROBLEMS),
        problem=STATES.get(given.one("state")),
        plain=given.says_yes("plain"),
        containing=given.one("containing"),
        after=place_from(given.one("after")),
        most=given.number("max"),
    )


def _answer(found: replies.Survey, given: Given) -> Answer:
    sort = Sort(given.one("sort") or Sort.PROBLEMS)
    rows = tuple(_row(row, sort) for row in found.rows)
    through = str(rows[-1][-1]) if rows else ""
    note = in_words(found.totals, whole=found.whole)
    return Answer(note, rows, through, more=found.more, now=found.now)


def _row(row: replies.SurveyRow, sort: Sort) -> Row:
    entry = row.entry
    return (
        entry.node.name,
        row.problems,
        state_of(entry.node.config),
        entry.queued,
        entry.locked,
        entry.delayed,
        entry.dead,
        entry.oldest,
        entry.rate,
        entry.failing,
        entry.node.subscriptions,
        entry.node.items,
        entry.node.bytes,
        entry.too_large,
        place_in_words(place_of(row, sort)),
    )


OVERVIEW: Final = Operation(
    "overview",
    "Look at all queues, problems first",
    "The totals, and the queues with problems first: without workers, with items too large for them, failing, with old or dead items, paused.",
    replies.Power.NODES,
    (SORT, TROUBLED, PLAIN, CONTAINING, AFTER, MAX_ROWS),
    (
        Column("node", "Node"),
        Column("problems", "Problems", Cell.NAMES),
        Column("state", "State", more=True),
        Column("depth", "Waiting", Cell.COUNT),
        Column("in_flight", "In flight", Cell.COUNT),
        Column("delayed", "Delayed", Cell.COUNT),
        Column("dead", "Dead", Cell.COUNT),
        Column("oldest", "Oldest waits for", Cell.SINCE),
        Column("rate", "Done per minute", Cell.RATE),
        Column("failing", "Failed per minute", Cell.RATE, more=True),
        Column("workers", "Subscribers", Cell.COUNT),
        Column("items", "Items", Cell.COUNT, more=True),
        Column("bytes", "Bytes of items", Cell.COUNT, more=True),
        Column("too_large", "Too large for every worker", Cell.COUNT, more=True),
        Column("place", "Place", more=True),
    ),
    _ask,
    _answer,
    place="place",
    manual="Show all queues, problems first.\n\n"
    "Prints the totals, then the queues. Queues with a problem come first: without workers, failing, with an item that has waited for more"
    " than 15 minutes, with dead items, or paused.",
    sums=True,
)

ON_OVERVIEW: Final = (OVERVIEW,)


# The alerts that are raised, and the targets that do not take them.

USUAL_ALERTS: Final = 100
"""Rows of a page, unless the caller wants fewer or more."""

ENDING: Final = "over, being told"
RAISED: Final = "raised"
FAILING: Final = "failing"

ALERT_STATES: Final = (RAISED, ENDING, FAILING)


def _read_alerts(by: Principal, given: Given, after: str) -> ReadAlerts:
    return ReadAlerts(by, after, given.number("max") or USUAL_ALERTS)


def _alerts(page: AlertPage, _given: Given) -> Answer:
    rows = tuple(_alert(one) for one in page.entries)
    note = count(len(rows), "alert")
    note = f"These are {note}; there are more." if page.more else f"{note}."
    return Answer(note, rows, page.entries[-1].name if rows else "", more=page.more)


def _alert(one: Alert) -> Row:
    failing = one.kind == Wrong.TARGET
    state = FAILING if failing else ENDING if one.over else RAISED
    return one.name, one.kind, one.subject, state, one.since, one.detail


ALERTS: Final = Operation(
    "alerts",
    "List the alerts",
    "What is wrong now, as [alerts] of the configuration has it, and the targets of alerts that do not take them.",
    replies.Power.SERVICE,
    (*searches(ReadAlerts, "their kinds or subjects"), AFTER, MAX_ROWS),
    (
        Column("alert", "Alert", more=True),
        Column("kind", "What is wrong"),
        Column("subject", "With"),
        Column("state", "State"),
        Column("since", "Since", Cell.SINCE),
        Column("detail", "Details"),
    ),
    searched(_read_alerts),
    answered(_alerts),
    place="alert",
    manual="List the alerts.\n\n"
    "Shows what is wrong now, as the table [alerts] of the configuration has it: dead items, old items, queues without workers, a full disk,"
    " accounts near a limit. A row with the state `failing` is a JID, a room or a webhook that does not take alerts.",
)

ON_ALERTS: Final = (ALERTS,)
